"""The training loop: a batch forward and backward, an update, repeat; and the learning rates."""

from .model import TASKS, loss_and_gradients

DROPPED = 0.1    # from drop_at on: factor on the rates (§3.1)


def step_gradients(model, config, batch, step):
    """One step's losses by name (0-d arrays), and its gradients. Steps are counted from 0."""
    task = TASKS[batch.task]
    loss, grads = loss_and_gradients(model, batch, (config.seed, step), task.weight_in(config))
    return {task.loss: loss}, grads


def train_steps(model, optimizer, config, batches, first=0, gradients=step_gradients):
    """Update a Model's parameters in place, once per Batch: `for done, losses in train_steps(…)`.

    After each step it yields the number of steps done and that step's losses. It ends when the
    batches do. first: number of the first step; gradients: `step_gradients`, or a function like it
    """
    for step, batch in enumerate(batches, start=first):
        losses, grads = gradients(model, config, batch, step)
        pairs = len(batch.sentences.lengths) // 2
        optimizer.step(model.params, grads, *rates(config.optim, step, config.steps, pairs))
        yield step + 1, losses


def rates(optim, step, steps, pairs):
    """The learning rates of one step: (for dense parameters, for tables).

    losses.py computes the mean loss. For the sum, SGD's rates are `pairs` times as large. Adaptive
    needs no such factor: it divides by the gradient's size.
    optim: an OptimConfig; step: from 0; steps: how many in all; pairs: how many in this batch
    """
    first, left = optim.warmup * steps, (1 - optim.warmup) * steps
    rise = (step + 1) / first if first else 1                 # to 1 over the share `warmup`
    fall = (steps - step) / left if optim.decay == "linear" and left else 1    # then to 0
    factor = min(1, rise, fall)
    if step >= optim.drop_at * steps:                         # the paper's last quarter
        factor *= DROPPED
    if optim.loss == "sum" and optim.optimizer == "sgd":
        factor *= pairs
    return factor * optim.learning_rate, factor * optim.table_learning_rate
