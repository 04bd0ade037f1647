"""Processes of this machine that work for a command, and end with it, however it ends."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for

from .cli import ENDING, UserError


@contextmanager
def local_processes(workers, advice, method=None):
    """An executor with this number of processes; they end with this process, however it ends.

    method: how they start, as multiprocessing names it. Raises UserError where one is killed, as
    the system does for want of memory; advice: what then to do.
    """
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context(method)
    executor = ProcessPoolExecutor(workers, context, _end_with_parent)
    try:
        yield executor
        executor.shutdown()
    except BaseException as error:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
            process.join()
        if isinstance(error, BrokenProcessPool):
            raise UserError("a process of this command was killed, perhaps for want of memory; "
                            f"{advice}") from None
        raise


def map_in_order(executor, function, items, ahead):
    """Yield the function's value for each item, in order; `ahead` items are taken beforehand.

    Raises what the function raises, and what taking an item raises.
    """
    waiting = deque()
    for item in items:
        waiting.append(submit(executor, function, item))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def submit(executor, function, *arguments):
    """A call to an executor, as its `submit`; the signals of ENDING wait until it is over.

    Processes are started here. One could be interrupted before it has decided what to do about
    Ctrl-C. And what a handler raises while Python forks is lost.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        return executor.submit(function, *arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _end_with_parent():
    signal.signal(signal.SIGINT, signal.SIG_IGN)              # all get Ctrl-C; the parent decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)             # a fork has the parent's own handler
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)        # and mask
    sentinel = multiprocessing.parent_process().sentinel
    threading.Thread(target=lambda: (wait_for([sentinel]), os._exit(1)), daemon=True).start()
