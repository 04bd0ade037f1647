"""Training a Run from its current step to its last: measuring, saving, stopping and resuming."""

import threading
from contextlib import contextmanager, nullcontext
from itertools import islice

from ..common.cli import ENDING, handling
from ..core.arrays import array_module, to_device
from ..core.loop import train_steps
from ..core.optim import OPTIMIZERS
from ..fast.devices import device_module, machine
from .monitor import Monitor
from .tasks import batches_of_tasks
from .workers import SINGLE_WORKER


def run_steps(run, tasks, dev, workers=SINGLE_WORKER):
    """Train a Run from its current step to its last; measure and save it `evaluations` times.

    Its parameters change in place if they are on the device already. Ctrl-C, SIGTERM and SIGHUP
    save a checkpoint after the current step and raise KeyboardInterrupt. A loss that is nan or far
    too large raises UserError, and no checkpoint is saved. With several workers, only the first
    one measures, shows progress and saves. dev: a function, Model → its measures on dev
    """
    config, leads = run.config, workers.rank == 0
    xp = device_module(config.device, config.precision, workers.gpu)
    model = run.model._replace(params=to_device(run.model.params, xp))
    optimizer = OPTIMIZERS[config.optim.optimizer](model.params)
    for name, saved in run.state.items():
        own = optimizer.state[name]
        own[...] = array_module(own).asarray(saved)
    batches = islice(batches_of_tasks(config, tasks, run.step), config.steps - run.step)
    every = -(-config.steps // config.evaluations)
    monitor = Monitor(run, dev, machine(xp)) if leads else None
    with monitor.bar if leads else nullcontext(), stop_requested() as stop:
        if leads and run.step == 0:
            monitor.measure(0, model)
        workers.wait()
        for done, losses in train_steps(model, optimizer, config, batches, run.step,
                                        workers.gradients):
            if leads:
                monitor.after_step(done, losses)
            due = done == config.steps or done % every == 0
            stopping = workers.agree(stop.is_set())
            if due or stopping:
                if leads:
                    monitor.checkpoint(done, model, optimizer.state, due)
                workers.wait()
            if stopping:
                raise KeyboardInterrupt


@contextmanager
def stop_requested():
    """An event that a signal in ENDING sets; a second raises KeyboardInterrupt(first signal)."""
    asked, signals = threading.Event(), []

    def ask(number, frame):
        signals.append(number)
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    try:
        with handling(dict.fromkeys(ENDING, ask)):
            yield asked
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*signals[:1]) from None
