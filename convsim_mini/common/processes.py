"""Processes that work for a command on this machine. They end when the command ends."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from types import ModuleType

from .cli import ENDING, UserError, handling

MOST = 61    # processes; Windows cannot wait for more


@contextmanager
def local_processes(workers, advice, method=None):
    """An executor with this number of processes. They end with this process, even if it is killed.

    method: how they start; advice: of the UserError where one is killed, as for want of memory
    """
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context(method)
    executor = ProcessPoolExecutor(min(workers, MOST), context, _end_with_parent)
    results = executor._result_queue
    try:
        yield executor
        executor.shutdown()
    except BaseException as error:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
            process.join()
        results._writer.close()    # or the executor would wait for the rest of a half-sent result
        if isinstance(error, BrokenProcessPool):
            raise UserError("a process of this command was killed, perhaps for want of memory; "
                            f"{advice}") from None
        raise


def map_in_order(executor, function, items, ahead):
    """Yield the function's value for each item, in order; `ahead` items are taken early."""
    waiting = deque()
    for item in items:
        waiting.append(submit(executor, function, item))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def submit(executor, function, *arguments):
    """Call an executor's `submit`, which may start processes; signals of ENDING wait meanwhile.

    A new process inherits this thread's mask, so nothing interrupts it before it ignores Ctrl-C.
    An error that a handler raises while Python forks is lost. Another thread, such as a progress
    bar's, may receive a signal in spite of the mask. So the handler only takes a note.
    """
    received = []
    main = sys.modules["__main__"]
    _mask("SIG_BLOCK")
    try:
        with handling(dict.fromkeys(ENDING, lambda number, _: received.append(number))):
            # A process that is no fork would run this command's or lesson's script, its main.
            sys.modules["__main__"] = ModuleType("__main__")
            return executor.submit(function, *arguments)
    finally:
        sys.modules["__main__"] = main
        _mask("SIG_UNBLOCK")
        for number in received:
            signal.raise_signal(number)


def _mask(how):
    if hasattr(signal, "pthread_sigmask"):                    # Windows has no masks
        signal.pthread_sigmask(getattr(signal, how), ENDING)


def _end_with_parent():
    """What a new process does first: it leaves Ctrl-C to its parent, and ends when that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)             # a fork has its parent's handler
    _mask("SIG_UNBLOCK")                                      # and its parent's mask
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent():
    multiprocessing.parent_process().join()
    os._exit(1)
