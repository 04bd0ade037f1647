"""What do dumps of any size cost?

    python tests/benchmarks/benchmark_reddit.py FOLDER [--millions 1 5 20] [--parsers]

With --parsers: how long orjson and duckdb take for the fields of 200,000 comments. Without: writes
synthetic dumps of a million comments each to FOLDER (once), lets prepare_reddit make pairs
of the first 1, 5 and 20 of them with two processes, and prints time, memory and disk. Memory is the
largest sum of the resident sets of all processes; pages that they share count each time.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import duckdb
import orjson
import psutil
import zstandard

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from data_scripts.comments import clean, read_comment

from synthetic_dumps import FIELDS, write_dump
from synthetic_dumps import lines as synthetic_lines

MILLION = 1_000_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--parsers", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    if options.parsers:
        return compare_parsers(options.folder)
    with ProcessPoolExecutor(2) as workers:
        most = max(options.millions)
        dumps = list(workers.map(make_dump, range(most), [options.folder] * most))
    for millions in options.millions:
        measure(dumps[:millions], options.folder / f"out{millions}", millions * MILLION)


def compare_parsers(folder):
    """Print processor time per comment of each way from lines to the texts of its fields."""
    lines = [line for year in FIELDS for line in synthetic_lines(40_000, year, seed=1)]
    path = folder / "lines.ndjson"
    path.write_bytes(b"".join(lines))
    database = duckdb.connect(config={"threads": 1})
    names = ("id", "link_id", "parent_id", "author", "body")
    columns = "{" + ", ".join(f"{name}: 'VARCHAR'" for name in names) + "}"
    options = f"format = 'newline_delimited', columns = {columns}, ignore_errors = true"
    query = f"SELECT * FROM read_json('{path}', {options})"
    comments = [read_comment(line) for line in lines]
    for name, work in {
            "orjson.loads": lambda: [None for line in lines if not orjson.loads(line)],
            "json.loads": lambda: [None for line in lines if not json.loads(line)],
            "read_comment (orjson, names and types)":
                lambda: [None for line in lines if not read_comment(line)],
            "duckdb, every field as text, fetched": lambda: database.execute(query).fetchall(),
            "clean (entities, rules, links)":
                lambda: [None for comment in comments if not clean(comment)]}.items():
        seconds = []
        for _ in range(5):
            begin = time.process_time()
            work()
            seconds.append(time.process_time() - begin)
        print(f"{name:40} {1e6 * min(seconds) / len(lines):5.2f} µs a comment")


def make_dump(number, folder):
    """A dump of a million comments, of one year's fields; → path."""
    year = list(FIELDS)[number % len(FIELDS)]
    path = folder / f"RC_{year}-{number:02d}.zst"
    if not path.exists():
        temporary = path.with_suffix(".tmp")
        with (open(temporary, "wb") as file,
              zstandard.ZstdCompressor(level=3).stream_writer(file) as stream):
            write_dump(stream, MILLION, year, number + 1)
        temporary.rename(path)
    return path


def measure(dumps, out, comments):
    """Run the script and print what it took, phase by phase."""
    shutil.rmtree(out, ignore_errors=True)
    begin, before = time.perf_counter(), processor_seconds()
    process = psutil.Popen([sys.executable, "-m", "data_scripts.prepare_reddit", *dumps,
                            "--out", out, "--workers", "2"],
                           stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    phases, most, disk = {}, 0, 0
    while process.poll() is None:
        most, disk = max(most, resident(process)), max(disk, size(out))
        for phase, sign in (("parse", "work/joined/*"), ("join", "pairs.jsonl.zst")):
            if phase not in phases and any(out.glob(sign)):
                phases[phase] = time.perf_counter() - begin
        time.sleep(0.2)
    whole, busy = time.perf_counter() - begin, processor_seconds() - before
    assert process.returncode == 0
    phases = {"parse": phases["parse"], "join": phases["join"] - phases["parse"],
              "pack": whole - phases["join"]}
    sizes = {"dumps": sum(map(size, dumps)), "most on the way": disk,
             **{name: size(out / name) for name in ("pairs", "pairs.jsonl.zst", "cache")}}
    print(f"{comments:,} comments in {whole:,.0f} s, {comments / whole:,.0f}/s ("
          + ", ".join(f"{phase} {comments / seconds:,.0f}/s" for phase, seconds in phases.items())
          + f"); {busy:,.0f} s of processor time, {1e6 * busy / comments:.1f} µs a comment; "
          f"{most / 1e9:.2f} GB")
    print("  bytes per comment: "
          + ", ".join(f"{name} {number / comments:.1f}" for name, number in sizes.items()),
          flush=True)


def processor_seconds():
    """Seconds that all ended processes started here have computed; other work does not count."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def resident(process):
    """Resident bytes of a process and all that it started."""
    total = 0
    for one in [process, *children(process)]:
        try:
            total += one.memory_info().rss
        except psutil.Error:                                  # it has just ended
            pass
    return total


def children(process):
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def size(path):
    """Bytes of a file, or of all files in a folder."""
    total = 0
    for one in [path] if path.is_file() else path.rglob("*"):
        try:
            total += one.stat().st_size if one.is_file() else 0
        except FileNotFoundError:                             # it has just been renamed
            pass
    return total


if __name__ == "__main__":
    main()
