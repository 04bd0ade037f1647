"""Batches of pairs, and the order of the pairs in an epoch."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from convsim_mini.config import Config, OptimConfig
from convsim_mini.core import batches as module
from convsim_mini.core.batches import batch_order, batches

from small_transformer import small_split


# ---------------------------------------------------------------- batches

def test_a_batch_is_the_inputs_and_then_their_responses():
    split, which = small_split(), np.array([5, 0, 17, 35])
    sentences = split.batch(which).sentences
    for k, number in enumerate([*(2 * which), *(2 * which + 1)]):
        one, same = sentences.part(k, k + 1), split.packed.part(number, number + 1)
        assert one.ids.tolist() == same.ids.tolist()
    assert (sentences.ids.dtype, sentences.offsets.dtype) == (np.int32, np.int64)
    assert split.pairs == 40 and split.batch(which).task == "replies"


def test_labels_and_task_go_with_their_pairs():
    labelled = small_split()._replace(labels=np.arange(40) % 3, task="nli")
    batch = labelled.batch(np.array([4, 8, 3]))
    assert batch.labels.tolist() == [1, 2, 0] and batch.task == "nli"


def test_batches_are_a_function_of_seed_and_step():
    split, config = small_split(), Config(seed=3, steps=12,
                                          optim=OptimConfig(batch_size=8, drop_at=0.5))
    all_of_them = list(islice(batches(config, split), 12))
    sizes = [len(batch.sentences.lengths) // 2 for batch in all_of_them]
    assert sizes == [8] * 6 + [16] * 6
    for first in (4, 6, 8):
        later = islice(batches(config, split, first), 12 - first)
        for one, other in zip(all_of_them[first:], later, strict=True):
            assert one.sentences.ids.tolist() == other.sentences.ids.tolist()
    other = next(batches(replace(config, seed=4), split))
    assert other.sentences.ids.tolist() != all_of_them[0].sentences.ids.tolist()


# ---------------------------------------------------------------- the order

@pytest.fixture(params=[256, 4])
def block(request, monkeypatch):
    """Shuffles all pairs at once, or blocks of 4 pairs, 16 blocks at a time."""
    monkeypatch.setattr(module, "BLOCK", request.param)
    monkeypatch.setattr(module, "SHUFFLED", 16)


@pytest.mark.parametrize("number, size", [(1_000, 64), (1_024, 128), (70, 70), (2_000, 700)])
def test_an_epoch_visits_each_pair_at_most_once_and_all_but_the_remainder(block, number, size):
    order = batch_order(number, size, seed=1)
    for _ in range(3):
        epoch = [next(order) for _ in range(number // size)]
        assert {batch.shape for batch in epoch} == {(size,)}
        visited = np.concatenate(epoch)
        assert len(np.unique(visited)) == len(visited) == number - number % size
        assert visited.min() >= 0 and visited.max() < number


def test_the_order_differs_between_epochs_and_seeds_and_goes_on_at_any_step(block):
    def order(seed, first_step=0):
        return np.stack([*islice(batch_order(1_050, 105, seed, first_step), 30)])

    whole, others = order(1), order(2)
    epochs = [tuple(rows.ravel()) for some in (whole, others) for rows in np.split(some, 3)]
    assert len({*epochs, tuple(sorted(epochs[0]))}) == 7
    for first_step in (0, 1, 9, 10, 11, 25):
        assert (order(1, first_step)[:30 - first_step] == whole[first_step:]).all()


def test_the_order_is_the_same_in_every_version():
    # otherwise a run resumed after an update would see other pairs
    order = islice(batch_order(9, 4, seed=1), 3)
    assert [batch.tolist() for batch in order] == [[6, 8, 4, 0], [1, 7, 5, 2], [2, 3, 7, 8]]
    assert (module.BLOCK, module.SHUFFLED) == (256, 4096)
