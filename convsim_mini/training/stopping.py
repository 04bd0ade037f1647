"""What can end a training before its last step: signals, a bad loss, too little memory."""

import threading
from contextlib import contextmanager

from ..common.cli import ENDING, UserError, handling, memory_reason
from .monitor import EXPLODED, Diverged


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


@contextmanager
def errors_explained(job, monitor):
    """Tell in one line, a UserError, what made the loss or the memory fail; say how to go on."""
    try:
        yield
    except Diverged as error:
        step, loss = error.args
        raise UserError(
            f"step {step:,}: the loss is {loss:.4g}, expected less than {EXPLODED} times that of "
            "picking at random; the checkpoints before it are kept; train again with a lower "
            "--optim.rate and --optim.table_rate") from None
    except MemoryError as error:
        at_once = job.config.optim.chunk or job.config.optim.batch_size
        raise UserError(
            f"too little memory to encode {at_once:,} pairs at once ({memory_reason(error)}); the "
            f"checkpoints are kept; to need less, train again with --optim.chunk "
            f"{max(1, at_once // 4)}") from None
    except KeyboardInterrupt:
        monitor.stopped()
        raise
    finally:
        monitor.close()
