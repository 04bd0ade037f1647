"""What must never break, attacked.  python tests/campaign/campaign.py [--minutes 20]

Each fault is tried at random, 50 times or more in 20 minutes. Prints a table, also when it is
interrupted; each defect stands in a line with how to repeat it. Exit code 1 if there is one.
"""

import argparse
import multiprocessing
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from traceback import format_exc

from tqdm import tqdm

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = map(str, [TESTS.parent, TESTS, TESTS / "helpers"])

import campaign_files
import campaign_processes
from campaign_ground import Defect, Ground, NotRun

from convsim_mini.common.show import markdown

AT_ONCE = 2    # processes
FAULTS = {     # name → what tries it once, share of the time, what it is
    "kills": (campaign_processes.kills, 32, "killed at random moments"),
    "workers": (campaign_processes.workers, 12, "one of several workers, or all, killed"),
    "two": (campaign_processes.two_at_once, 18, "two commands at once in one folder"),
    "disks": (campaign_processes.disks, 10, "full disks"),
    "closed": (campaign_processes.closed, 5, "standard input and error closed"),
    "damage": (campaign_files.damaged, 15, "files of a run, an index, a cache changed"),
}
LEAST = 2.5    # tries of each fault for a minute, however busy the machine is
ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP")]


def attempt(name, ground, seed, number):
    """Try a fault once; → name, number, what is wrong or None, seconds; without number: not run.

    The same seed and number draw the same, but for the moments of signals.
    """
    wrong, begin = None, time.monotonic()
    try:
        FAULTS[name][0](ground, random.Random(f"{seed} {name} {number}"))
    except Defect as error:
        wrong = str(error)
    except NotRun as error:
        number, wrong = None, str(error)
    except Exception:
        wrong = f"the campaign itself failed: {format_exc()}"
    return name, number, wrong, time.monotonic() - begin


def campaign(names, ground, seed, minutes):
    """Try all faults, two processes side by side; yield what the attempts give."""
    until, left = time.monotonic() + 60 * minutes, list(names)
    begun, spent, running = Counter(), Counter(), set()
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(AT_ONCE, mp_context=fork) as pool:
        while left or running:
            while left and len(running) < AT_ONCE:
                name = min(left, key=lambda name: begun[name] / 1e3 + spent[name] / FAULTS[name][1])
                running.add(pool.submit(attempt, name, ground, seed, begun[name]))
                begun[name] += 1
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for result in done:
                name, number, *_, seconds = result.result()
                spent[name] += seconds
                if name in left and number is None:
                    left.remove(name)
                yield result.result()
            late = time.monotonic() > until
            left = [name for name in left if not late or begun[name] < LEAST * minutes]


def report(tried, defects, not_run):
    """The table."""
    return markdown(["fault", "tried", "survived", "defects"], [
        [FAULTS[name][2], *([f"not run: {not_run[name]}", "", ""] if name in not_run else [
            f"{tried[name]:,}", f"{tried[name] - defects[name]:,}", str(defects[name])])]
        for name in FAULTS if tried[name] or name in not_run])


def end(number, frame):
    """What handles a signal: the with and finally blocks of what runs end it in order."""
    for other in ENDING:
        signal.signal(other, signal.SIG_IGN)
    for process in multiprocessing.active_children():         # their tries end in the same way
        process.terminate()
    sys.exit(128 + number)


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20, help="for all faults together")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--repeat", type=int, metavar="N", help="this try of the fault alone")
    options, tried, defects, not_run = parser.parse_args(), Counter(), Counter(), {}
    for number in ENDING:                                     # also where & has SIGINT ignored
        signal.signal(number, end)
    print(f"seed {options.seed}", flush=True)
    tqdm.monitor_interval = 0                                 # no thread where processes fork
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        ground = Ground(folder)
        for _ in tqdm(ground.make(), desc="preparing", unit=" results"):
            pass
        results = campaign(options.only, ground, options.seed, options.minutes)
        if options.repeat is not None:
            results = [attempt(name, ground, options.seed, options.repeat) for name in options.only]
        try:
            for name, number, wrong, _ in tqdm(results, desc="trying", unit=" tries"):
                if number is None:
                    not_run[name] = wrong
                    continue
                tried[name] += 1
                defects[name] += bool(wrong)
                if wrong:
                    tqdm.write(f"DEFECT {wrong}\n  python tests/campaign/campaign.py "
                               f"--seed {options.seed} --only {name} --repeat {number}")
        finally:                                              # also of an interruption
            print(report(tried, defects, not_run), flush=True)
    sys.exit(1 if defects.total() else 0)


if __name__ == "__main__":
    main()
