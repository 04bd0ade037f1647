"""What must never break, attacked.  python tests/campaign/campaign.py [--minutes 20]

Each fault is tried at random, 50 times and until its share of the minutes is spent. Prints a
table; each defect stands in a line with how to repeat it. Exit code 1 if there is one.
"""

import argparse
import multiprocessing
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import count
from multiprocessing.connection import wait
from pathlib import Path
from traceback import format_exc

from tqdm import tqdm

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = map(str, [TESTS.parent, TESTS, TESTS / "helpers"])

import campaign_damage
import campaign_options
import campaign_others
import campaign_processes
from campaign_ground import FORK, Defect, Ground, NotRun

from convsim_mini.common.cli import ENDING, progress
from convsim_mini.common.tables import markdown

AT_ONCE = 2    # processes
FAULTS = {     # name → what tries it once, share of the minutes, what it is
    "kills": (campaign_processes.kills, 28, "killed at random moments"),
    "workers": (campaign_others.workers, 12, "one of several workers, or all, killed"),
    "two": (campaign_processes.two_at_once, 14, "two commands at once in one folder"),
    "disks": (campaign_processes.disks, 10, "full disks"),
    "downloads": (campaign_others.downloads, 8, "downloads that break, change, are killed"),
    "showing": (campaign_processes.showing, 6, "output closed, full, without reader, ASCII"),
    "tampering": (campaign_damage.tampering, 5, "a run's files changed"),
    "indexes": (campaign_others.indexes, 3, "an index's files changed"),
    "nli": (campaign_others.nli, 4, "NLI data changed while a training is stopped"),
    "cache": (campaign_damage.cache, 6, "a cache's files damaged, also while in use"),
    "bombs": (campaign_damage.bombs, 6, "small files that expand, 2 GB of addresses"),
    "options": (campaign_options.options, 10, "options with random values"),
}
LEAST = 50     # tries of each fault, however busy the machine is


def attempt(name, ground, seed, number):
    """Try a fault once; → (name, number, what is wrong or None); without number: it cannot be run.

    The same seed and number draw the same, but for the moments of signals.
    """
    wrong = None
    try:
        FAULTS[name][0](ground, random.Random(f"{seed} {name} {number}"))
    except Defect as error:
        wrong = str(error)
    except NotRun as error:
        number, wrong = None, str(error)
    except Exception:
        wrong = f"the campaign itself failed: {format_exc()}"
    return name, number, wrong


def lane(name, ground, seed, seconds, pipe):
    """Try a fault 50 times, and until the seconds are over; send what each attempt gives."""
    until = time.monotonic() + seconds
    for number in count():
        pipe.send(result := attempt(name, ground, seed, number))
        if result[1] is None or (number + 1 >= LEAST and time.monotonic() > until):
            break


def campaign(names, ground, seed, minutes):
    """Try all faults, two processes side by side; yield what the lanes send."""
    total = sum(FAULTS[name][1] for name in names)
    waiting, running, tried = list(names), {}, Counter()
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            name = waiting.pop(0)
            seconds = minutes * 60 * min(AT_ONCE, len(names)) * FAULTS[name][1] / total
            pipe, end = multiprocessing.Pipe(duplex=False)
            process = FORK.Process(target=lane, name=name, args=(name, ground, seed, seconds, end))
            process.start()
            end.close()
            running[pipe] = process
        for pipe in wait(running):
            try:
                result = pipe.recv()
            except EOFError:
                process = running.pop(pipe)
                process.join()
                if not process.exitcode:
                    continue
                result = (process.name, tried[process.name], f"its lane died ({process.exitcode})")
            tried[result[0]] += 1
            yield result


def report(tried, defects, not_run):
    """The table."""
    return markdown(["fault", "tried", "survived", "defects"], [
        [FAULTS[name][2], *([f"not run: {not_run[name]}", "", ""] if name in not_run else [
            f"{tried[name]:,}", f"{tried[name] - defects[name]:,}", str(defects[name])])]
        for name in FAULTS if tried[name] or name in not_run])


def parse_options():
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20, help="for all faults together")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--repeat", type=int, metavar="N", help="this try of the fault alone")
    return parser.parse_args()


def end(number, frame):
    """End, and all that was started; what handles a signal."""
    for other in ENDING:
        signal.signal(other, signal.SIG_IGN)
    for process in multiprocessing.active_children():
        process.terminate()
        process.join()
    sys.exit(128 + number)


def main():
    """The command."""
    for number in ENDING:                                     # also where & has SIGINT ignored
        signal.signal(number, end)
    options, tried, defects, not_run = parse_options(), Counter(), Counter(), {}
    print(f"seed {options.seed}", flush=True)
    tqdm.monitor_interval = 0                                 # no thread where processes fork
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        ground = Ground(folder)
        with progress(desc="preparing", unit=" results") as bar:
            for name in ground.make():
                bar.update()
                bar.set_postfix_str(name)
        results = campaign(options.only, ground, options.seed, options.minutes)
        if options.repeat is not None:
            results = [attempt(name, ground, options.seed, options.repeat) for name in options.only]
        with progress(results, desc="trying", unit=" tries") as bar:
            for name, number, wrong in bar:
                if number is None:
                    not_run[name] = wrong
                    continue
                tried[name] += 1
                defects[name] += bool(wrong)
                bar.set_postfix_str(f"{name}, {defects.total()} defects", refresh=False)
                if wrong:
                    bar.write(f"DEFECT {wrong}\n  python tests/campaign/campaign.py "
                              f"--seed {options.seed} --only {name} --repeat {number}")
    print(report(tried, defects, not_run))
    sys.exit(1 if defects.total() else 0)


if __name__ == "__main__":
    main()
