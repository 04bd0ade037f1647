"""Runs independent tasks on local processes, or on the workers of a dask.distributed cluster."""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import CancelledError, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from convsim_mini.cli import UserError

ATTEMPTS = 5         # of a cluster at a task whose worker dies
PATIENCE = "30s"     # until a scheduler must have answered


def run_tasks(executor, function, argument_lists, progress):
    """Call the function with each list of arguments, in any order. Raises what a call raises.

    progress(number of calls done) is called about once a second.
    """
    with _interrupts_held():                                  # processes are started here
        futures = [executor.submit(function, *arguments) for arguments in argument_lists]
    waiting = set(futures)
    while waiting:
        done, waiting = wait(waiting, timeout=1)
        try:
            for future in done:
                future.result()
        except BrokenProcessPool:
            raise UserError("a process of this command was killed, perhaps for want of memory; "
                            "what is finished is kept: run the same command again, with fewer "
                            "--workers") from None
        except CancelledError:
            raise UserError("the scheduler of the cluster has gone; what is finished is kept: "
                            "start it again, and run the same command") from None
        progress(len(futures) - len(waiting))


@contextmanager
def local_processes(workers):
    """An executor with this number of processes; they end with this process, however it ends."""
    # Fresh processes: a fork could inherit a lock that a thread of this one holds.
    executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _end_with_parent)
    try:
        yield executor
    except BaseException:
        executor.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    executor.shutdown()


@contextmanager
def _interrupts_held():
    """Let Ctrl-C wait, and let processes that start meanwhile never see it.

    Otherwise one could be interrupted before it has decided what to do about Ctrl-C.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _end_with_parent():
    signal.signal(signal.SIGINT, signal.SIG_IGN)              # all get Ctrl-C; the parent decides
    sentinel = multiprocessing.parent_process().sentinel
    threading.Thread(target=lambda: (wait_for([sentinel]), os._exit(1)), daemon=True).start()


@contextmanager
def cluster(address):
    """An executor of the workers of the cluster whose scheduler has that address.

    They are sent this repository's packages, so they need only the libraries.
    """
    from distributed import Client, KilledWorker              # takes a second; few commands need it
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise UserError(f"--scheduler {address}: no scheduler answers there ({error}); start one "
                        "with: dask scheduler") from None
    with client, TemporaryDirectory() as folder:
        try:
            client.upload_file(_zipped(Path(folder, "convsim_mini.zip")))
            # What the tasks need is imported now, so that a missing library is reported here.
            for run in (client.run_on_scheduler, client.run):
                run(exec, "import data_scripts.buckets")
            yield client.get_executor(pure=False, retries=ATTEMPTS)
        except ModuleNotFoundError as error:
            raise UserError(f"--scheduler {address}: on the cluster there is {str(error).lower()}; "
                            "install data_scripts/requirements.txt where the scheduler and the "
                            "workers run") from None
        except KilledWorker:
            raise UserError(f"--scheduler {address}: a task killed one worker after another, "
                            "perhaps for want of memory; what is finished is kept: give each "
                            "worker more memory, run the same command again") from None


def _zipped(target):
    """Write a zip file of the packages convsim_mini and data_scripts; → its name."""
    repository = Path(__file__).resolve().parents[1]
    with ZipFile(target, "w") as archive:
        for package in ("convsim_mini", "data_scripts"):
            for path in sorted((repository / package).rglob("*.py")):
                archive.write(path, path.relative_to(repository))
    return str(target)
