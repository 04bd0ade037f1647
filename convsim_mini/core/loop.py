"""The training loop: a batch forward and backward, an update, repeat."""

from .model import TASKS, loss_and_gradients
from .schedule import rates


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
