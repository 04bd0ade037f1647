"""Runs independent tasks on local processes, or on the workers of a dask.distributed cluster."""

from concurrent.futures import CancelledError, as_completed
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from tqdm import tqdm

from convsim_mini.common.cli import UserError
from data_scripts import libraries

ATTEMPTS = 5         # of a cluster at a task that kills its worker
PATIENCE = "30s"     # for a scheduler's answer


def run_tasks(executor, function, argument_lists, unit):
    """Call the function with each list of arguments, in any order. Raises what a call raises.

    unit: what a progress bar counts
    """
    futures = [executor.submit(function, *arguments) for arguments in argument_lists]
    try:
        for future in tqdm(as_completed(futures), total=len(futures), unit=f" {unit}", leave=False):
            future.result()
    except CancelledError:
        raise UserError("the scheduler of the cluster is gone; what is finished is kept: start it "
                        "again, and run the same command") from None


@contextmanager
def cluster(address):
    """An executor on the workers of the cluster with its scheduler at this address.

    They are sent this repository's packages, so they need only the libraries.
    """
    with libraries():
        from distributed import Client, KilledWorker          # takes a second
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
                            "perhaps for lack of memory; what is finished is kept: give each "
                            "worker more memory and run the same command again") from None


def _zipped(target):
    """Write a zip file of the packages convsim_mini and data_scripts; → its name."""
    repository = Path(__file__).resolve().parents[1]
    with ZipFile(target, "w") as archive:
        for package in ("convsim_mini", "data_scripts"):
            for path in sorted((repository / package).rglob("*.py")):
                archive.write(path, path.relative_to(repository))
    return str(target)
