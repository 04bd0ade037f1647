"""What do dumps of any size cost?

    python tests/benchmarks/benchmark_reddit.py FOLDER [--millions 1 5 20]

Writes synthetic dumps of a million comments each to FOLDER (once), lets prepare_reddit make pairs
of the first 1, 5 and 20 of them with two processes, and prints time, memory and disk. Memory is the
largest sum of the resident sets of all processes; pages that they share count each time.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil

import contenders  # noqa: F401  (it makes the repository's folders known)
from convsim_mini.common.lines import zstd
from synthetic_dumps import FIELDS, write_dump

MILLION = 1_000_000


def make_dump(folder, number):
    """A dump of a million comments, of one year's fields; → path."""
    year = list(FIELDS)[number % len(FIELDS)]
    path = folder / f"RC_{year}-{number:02d}.zst"
    if not path.exists():
        temporary = path.with_suffix(".tmp")
        with zstd.open(temporary, "wb") as stream:
            write_dump(stream, MILLION, year, number + 1)
        temporary.rename(path)
    return path


def measure(dumps, out):
    """Run the script and print what it took, phase by phase."""
    shutil.rmtree(out, ignore_errors=True)
    begin, ends, most, disk = time.perf_counter(), {}, 0, 0
    process = psutil.Popen([sys.executable, "-m", "data_scripts.prepare_reddit", *dumps,
                            "--out", out, "--workers", "2"],
                           stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        most, disk = max(most, resident(process)), max(disk, size(out))
        for phase, sign in (("parse", "work/joined/*"), ("join", "pairs.jsonl.zst")):
            if any(out.glob(sign)):
                ends.setdefault(phase, time.perf_counter() - begin)
        time.sleep(0.2)
    assert process.returncode == 0
    ends["pack"] = whole = time.perf_counter() - begin
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)      # of those before, too
    comments, before = len(dumps) * MILLION, 0
    print(f"{comments:,} comments in {whole:,.0f} s; a second: {comments / whole:,.0f}", end="")
    for phase, end in ends.items():
        print(f", {comments / (end - before):,.0f} ({phase})", end="")
        before = end
    print(f"; processor time so far {usage.ru_utime + usage.ru_stime:,.0f} s; {most / 1e9:.2f} GB")
    sizes = {"dumps": sum(map(size, dumps)), "most on the way": disk,
             **{name: size(out / name) for name in ("pairs", "pairs.jsonl.zst", "cache")}}
    print("  bytes per comment: " + ", ".join(
        f"{name} {number / comments:.1f}" for name, number in sizes.items()), flush=True)


def resident(process):
    """Resident bytes of a process and all that it started."""
    total = 0
    with suppress(psutil.Error):                              # one has just ended
        for one in [process, *process.children(recursive=True)]:
            total += one.memory_info().rss
    return total


def size(path):
    """Bytes of a file, or of all files in a folder."""
    total = 0
    for one in [path] if path.is_file() else path.rglob("*"):
        with suppress(FileNotFoundError):                     # it has just been renamed
            total += one.stat().st_size if one.is_file() else 0
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 5, 20])
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    with ProcessPoolExecutor(2) as workers:
        dumps = list(workers.map(partial(make_dump, options.folder), range(max(options.millions))))
    for millions in options.millions:
        measure(dumps[:millions], options.folder / f"out{millions}")


if __name__ == "__main__":
    main()
