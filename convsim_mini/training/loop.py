"""A training from its start to its end: measured, saved, stopped, and gone on with later."""

import threading
from collections.abc import Callable
from contextlib import contextmanager
from itertools import islice, takewhile
from pathlib import Path
from typing import NamedTuple

from ..common.cli import ENDING, handling
from ..config import Config
from ..core.arrays import array_module, to_device
from ..core.loop import train_steps
from ..core.model import Model
from ..core.optim import OPTIMIZERS
from ..data.corpus import Corpus
from ..fast.devices import device_module, machine
from .monitor import Monitor, Silent
from .run import TRAINING, Run
from .tasks import Tasks, batches
from .workers import ALONE, Alone


class Job(NamedTuple):
    """All that a training needs but its parameters; train.py makes it."""

    config: Config
    corpus: Corpus
    tasks: Tasks
    dev: Callable                       # Model → its measures on dev, for a Monitor
    tests: tuple = ()                   # what train.py's summary measures on
    workers: Alone = ALONE              # or Workers, of several processes
    folder: Path | None = None          # of the run; only the first worker knows it

    def run(self, step=0, model=None, **more):
        """The Run that training.safetensors holds after a step; more: its other fields."""
        return Run(Path(self.folder, TRAINING), self.config, self.corpus.vocabulary, model, step,
                   corpus=self.corpus.checksum, nli=self.tasks.nli_checksum, **more)


class Start(NamedTuple):
    """Where a training starts."""

    params: dict | None = None          # the first worker alone has these values
    step: int = 0
    state: dict | None = None           # the optimiser's, from a checkpoint
    measured: list = []                 # records of what was measured until then


def run_steps(job, start):
    """Train a Job from its Start to the last step; measure and save `evaluations` times.

    Ctrl-C, SIGTERM and SIGHUP save a checkpoint after the current step and raise KeyboardInterrupt.
    Raises UserError, and saves no checkpoint, for a loss that is nan or far too large. Of several
    workers the first alone measures, shows and saves. Training ends early where dev has fallen
    three times.
    """
    model, optimizer, monitor = begin(job, start)
    config, workers = job.config, job.workers
    every = -(-config.steps // config.evaluations)
    ended = workers.broadcast(monitor.has_fallen())

    def after_step(done, losses):
        nonlocal ended
        monitor.after_step(done, losses)
        due = done == config.steps or done % every == 0
        stopping = workers.agree(stop.is_set())
        if due or stopping:
            monitor.checkpoint(done, model, optimizer.state, due)
            workers.wait()
            ended = workers.broadcast(monitor.has_fallen())
        if stopping:
            raise KeyboardInterrupt

    try:
        with asked_to_stop() as stop:
            if start.step == 0:
                monitor.measure(0, model)
                workers.wait()
            of_steps = batches(config, job.tasks, start.step, workers.trains_nli)
            of_steps = islice(of_steps, config.steps - start.step)
            train_steps(model, optimizer, config, takewhile(lambda _: not ended, of_steps),
                        start.step, after_step, workers.gradients)
    except KeyboardInterrupt:
        monitor.stopped()
        raise
    finally:
        monitor.close()


def begin(job, start):
    """The Model on its device, its optimiser and what watches them."""
    config, workers = job.config, job.workers
    xp = device_module(config.device, config.precision, workers.gpu)
    params = to_device(start.params, xp)
    model = Model(params, config.model, job.corpus.vocabulary.size)
    optimizer = OPTIMIZERS[config.optim.optimizer](params)
    for name, saved in (start.state or {}).items():
        own = optimizer.state[name]
        own[...] = array_module(own).asarray(saved)
    return model, optimizer, Silent() if workers.rank else Monitor(job, start, machine(xp))


@contextmanager
def asked_to_stop():
    """An event that a first signal of ENDING sets; a second raises KeyboardInterrupt(the first)."""
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
