"""Processes that work for a command or `fit` on this machine, and end when it ends."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from types import ModuleType

from .cli import UserError


@contextmanager
def local_processes(workers, advice, method=None):
    """A ProcessPoolExecutor with this number of worker processes. An error ends them at once.

    method: how they start; advice: for the UserError if one is killed, perhaps for lack of memory
    """
    context = multiprocessing.get_context(method)
    executor = ProcessPoolExecutor(workers, context, _end_with_parent)
    with nullcontext() if context.get_start_method() == "fork" else without_main():
        try:
            yield executor
        except BaseException as error:
            for process in (executor._processes or {}).values():    # or they may take an hour
                process.terminate()
            if isinstance(error, BrokenProcessPool):
                raise UserError("a worker process was killed, perhaps because memory ran "
                                f"out; {advice}") from None
            raise
        finally:
            executor.shutdown(cancel_futures=True)


@contextmanager
def without_main():
    """Hide __main__, because a spawned process would run it, and it may be a whole lesson."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def map_in_order(executor, function, items, ahead):
    """Yield function(item) for each item, in order; up to `ahead` items are submitted early."""
    waiting = deque()
    for item in items:
        waiting.append(executor.submit(function, item))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _end_with_parent():
    """Called first in a new process: leave Ctrl-C to the parent, and end when it ends."""
    def wait():
        multiprocessing.parent_process().join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)             # a fork inherits its parent's
    threading.Thread(target=wait, daemon=True).start()
