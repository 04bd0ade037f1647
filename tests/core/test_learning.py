"""Optimisers against their formulas, the rates of each step, the loop."""

from dataclasses import replace

import numpy as np
import pytest

from convsim_mini.config import Config, ModelConfig, OptimConfig
from convsim_mini.core import loop
from convsim_mini.core.embeddings import SparseRows
from convsim_mini.core.loop import rates, step_gradients, train_steps
from convsim_mini.core.model import loss_and_gradients
from convsim_mini.core.optim import OPTIMIZERS, SGD, Adaptive

from small_transformer import small_model, small_split

TABLE = "encoder.embedding.weight"


def some_gradients(rng):
    """A matrix and a table whose rows 1 and 3 are used; their gradients in two steps."""
    params = {"w": rng.standard_normal((2, 3)), TABLE: rng.standard_normal((5, 3))}
    rows = np.array([3, 1, 3], np.int32)
    return params, [{"w": rng.standard_normal((2, 3)),
                     TABLE: [SparseRows(rows, rng.standard_normal((2, 3)), np.array([0, 1, 1]))]}
                    for _ in range(2)]


def of_row(grad, row):
    """The gradient of one row of the table: (3,)."""
    return sum(part.values[source] for part in grad for r, source in zip(part.rows, part.sources)
               if r == row)


def test_sgd_goes_down_by_rate_times_gradient():
    params, steps = some_gradients(np.random.default_rng(0))
    before = {name: p.copy() for name, p in params.items()}
    optimizer = SGD(params)
    for grads in steps:
        optimizer.step(params, grads, 0.1, 0.5)
    assert optimizer.state == {} and OPTIMIZERS["sgd"] is SGD
    expected = before["w"] - 0.1 * (steps[0]["w"] + steps[1]["w"])
    np.testing.assert_allclose(params["w"], expected, atol=1e-14)
    for row in (1, 3):
        change = sum(of_row(grads[TABLE], row) for grads in steps)
        np.testing.assert_allclose(params[TABLE][row], before[TABLE][row] - 0.5 * change,
                                   atol=1e-14)
    assert (params[TABLE][[0, 2, 4]] == before[TABLE][[0, 2, 4]]).all()


def test_adaptive_is_adam_and_row_wise_adagrad():
    params, steps = some_gradients(np.random.default_rng(1))
    before = {name: p.copy() for name, p in params.items()}
    optimizer = Adaptive(params)
    mean, square, w, squares = 0, 0, before["w"].copy(), np.full(5, 1e-12)
    table = before[TABLE].copy()
    for t, grads in enumerate(steps, start=1):
        optimizer.step(params, grads, 0.1, 0.5)
        mean = 0.9 * mean + 0.1 * grads["w"]
        square = 0.999 * square + 0.001 * grads["w"] ** 2
        w -= 0.1 * (mean / (1 - 0.9 ** t)) / (np.sqrt(square / (1 - 0.999 ** t)) + 1e-8)
        for row in (1, 3):
            grad = of_row(grads[TABLE], row)
            squares[row] += (grad ** 2).mean()
            table[row] -= 0.5 * grad / np.sqrt(squares[row])
    np.testing.assert_allclose(params["w"], w, atol=1e-12)
    np.testing.assert_allclose(params[TABLE], table, atol=1e-12)
    np.testing.assert_allclose(optimizer.state[f"{TABLE}.squares"], squares, rtol=1e-12)
    assert optimizer.state["steps"].tolist() == [2]


# ---------------------------------------------------------------- rates

def test_rates_rise_and_fall_by_shares_of_the_steps():
    optim = OptimConfig(learning_rate=2.0, table_learning_rate=6.0, warmup=0.2)
    for steps in (10, 100):
        found = [rates(optim, step, steps, 128) for step in range(steps)]
        dense = [of_dense for of_dense, _ in found]
        rise = steps // 5
        np.testing.assert_allclose(dense[:rise], np.linspace(0, 2, rise + 1)[1:])
        np.testing.assert_allclose(dense[rise:], np.linspace(2, 0, steps - rise + 1)[:-1])
        assert all(table == pytest.approx(3 * one) for one, table in found)
    assert rates(replace(optim, warmup=1.0), 49, 100, 1)[0] == 1     # rises to the end
    assert rates(replace(optim, decay="none", warmup=0.0), 99, 100, 1)[0] == 2


def test_a_rate_is_as_many_times_larger_as_the_papers_sum_has_pairs():
    paper = OptimConfig(optimizer="sgd", loss="sum", learning_rate=0.01,
                        table_learning_rate=0.01, warmup=0.0, decay="none", drop_at=0.75)
    assert rates(paper, 0, 100, 128)[0] == 1.28
    assert rates(replace(paper, optimizer="adaptive"), 0, 100, 128)[0] == 0.01
    assert rates(replace(paper, loss="mean"), 0, 100, 128)[0] == 0.01


# ---------------------------------------------------------------- the loop

def small_config(**optim):
    """A small DAN's settings."""
    return Config(model=ModelConfig(embedding_dim=6, layers=[6]), seed=3, steps=12,
                  optim=OptimConfig(batch_size=8, warmup=0.2, **optim))


def test_a_step_of_the_loop_is_the_gradient_at_the_rate_of_its_number():
    config = small_config(optimizer="sgd", loss="sum")
    model, split = small_model(config.model), small_split()
    before = {name: p.copy() for name, p in model.params.items()}
    batch = split.batch(np.arange(8))
    loss, grads = loss_and_gradients(model, batch, (config.seed, 7))
    told = list(train_steps(model, SGD(model.params), config, [batch], first=7))
    rate, _ = rates(config.optim, 7, config.steps, pairs=8)
    name = "encoder.linear0.weight"
    np.testing.assert_allclose(model.params[name], before[name] - rate * grads[name], rtol=1e-5)
    assert told[0][0] == 8 and float(told[0][1]["loss"]) == float(loss)


@pytest.mark.parametrize("task, loss, weight", [
    ("replies", "loss", 1), ("classes", "nli_loss", 7), ("entailments", "nli_loss", 1)])
def test_each_step_has_its_own_key_and_each_task_its_weight(task, loss, weight, monkeypatch):
    batch, seen = small_split().batch(np.arange(8))._replace(task=task), []
    for step in (0, 1):
        monkeypatch.setattr(loop, "loss_and_gradients",
                            lambda *given: seen.append(given) or (step, {}))
        losses, _ = step_gradients(None, small_config(nli_weight=7.0), batch, step)
        assert losses == {loss: step}
    assert seen == [(None, batch, (3, step), weight) for step in (0, 1)]
