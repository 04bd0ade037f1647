"""What can end a training before its last step: signals, a bad loss, too little memory."""

import json
import threading
from contextlib import contextmanager
from pathlib import Path

from ..common.cli import ENDING, UserError, handling, memory_reason
from ..common.files import write_text
from .monitor import EXPLODED, Diverged
from .tasks import batches


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
        raise UserError(divergence(job, monitor.config, *error.args)) from None
    except MemoryError as error:
        at_once = job.config.optim.chunk or job.config.optim.batch_size
        raise UserError(
            f"too little memory to encode {at_once:,} pairs at once ({memory_reason(error)}); the "
            f"checkpoints are kept; to need less, train again with --optim.chunk "
            f"{max(1, at_once // 4)}, or write that into {job.folder}/config.json and go on with "
            f"--resume {job.folder}") from None
    except KeyboardInterrupt:
        monitor.stopped()
        raise
    finally:
        monitor.close()


def divergence(job, config, step, loss):
    """Save the batch of the step at which the loss went wrong; → what to tell the user."""
    batch = next(batches(config, job.tasks, step - 1)).sentences
    token = job.corpus.vocabulary.token
    B = len(batch.lengths) // 2
    texts = [" ".join(map(token, batch.part(b, b + 1).ids)) for b in range(2 * B)]
    lines = [json.dumps({"input": texts[b], "response": texts[B + b]}) for b in range(B)]
    path = Path(job.folder, f"diverged-{step:06d}.jsonl")
    write_text(path, "".join(f"{line}\n" for line in lines))
    return (f"step {step:,}: the loss is {loss:.4g}, expected less than {EXPLODED} times that of "
            f"picking at random; the step's pairs are in {path} and the checkpoints before it are "
            "kept; train again with a lower --optim.rate and --optim.table_rate")
