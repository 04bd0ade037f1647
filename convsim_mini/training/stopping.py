"""What can end a training before its last step: signals, too little memory."""

import threading
from contextlib import contextmanager

from ..common.cli import ENDING, UserError, handling, memory_reason


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
    """Say after a signal how to go on; raise a UserError where memory is too little."""
    try:
        yield
    except MemoryError as error:
        at_once = job.config.optim.chunk or job.config.optim.batch_size
        raise UserError(
            f"too little memory to encode {at_once:,} pairs at once ({memory_reason(error)}); the "
            "checkpoints are kept; to need less, train again with "
            f"--optim.chunk {max(1, at_once // 4)}") from None
    except KeyboardInterrupt:
        monitor.stopped()
        raise
    finally:
        monitor.close()
