"""A single worker. A reader who trains with one process can skip what its methods do.

distributed.py defines Workers: several processes that train on one batch together.
"""

from contextlib import nullcontext

from ..core.loop import step_gradients
from .chunks import loss_and_gradients_of


class SingleWorker:
    """With one process, there is nothing to exchange. Workers has methods with the same names."""

    rank, size, gpu, trains_nli = 0, 1, 0, None

    def gradients(self, model, config, batch, step):
        """`step_gradients`, in chunks if optim.chunk is set."""
        return step_gradients(model, config, batch, step, loss_and_gradients_of(config))

    agree = broadcast = staticmethod(lambda value: value)
    check_nccl = wait = staticmethod(lambda: None)
    in_turn = job = nullcontext


SINGLE_WORKER = SingleWorker()
