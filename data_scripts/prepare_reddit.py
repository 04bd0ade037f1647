"""Monthly dumps of Reddit comments, or ConvoKit corpora → (input, response) pairs to train on.

    python -m data_scripts.prepare_reddit INPUT… --out DIR

writes to DIR: pairs/*.parquet (with the comments' ids), pairs.jsonl.zst (what training reads), cache/
(the packed corpus, so that training starts at once) and report.json. Whatever stops it, the same
command goes on at the last finished dump or bucket.
"""

import argparse
import fcntl
import json
import os
import shutil
from collections import Counter
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import duckdb
from tqdm import tqdm

from convsim_mini.cli import UserError, errors_in_one_line
from convsim_mini.config import TextConfig
from convsim_mini.data.corpus import load_corpus
from convsim_mini.files import replace_file, write_text
from data_scripts.buckets import TEMPORARY, join_bucket, parse_dump
from data_scripts.comments import REASONS, read_comment
from data_scripts.dump_files import DumpLines
from data_scripts.tasks import cluster, local_processes, run_tasks

FORMAT = 1
BUCKET_BYTES, MOST_BUCKETS = 1 << 26, 512    # of the files as they are, mostly compressed tenfold
FEW = 5_000                                  # pairs, in whose splits there may be too few to train on


def main(arguments=None):
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", type=Path, metavar="INPUT",
                        help="a dump (RC_YYYY-MM: plain, gzip, bzip2, xz, zstd), a folder of them, a ConvoKit corpus")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the pairs")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), metavar="N",
                        help="processes on this machine (default: a process for each core)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="run on the dask cluster with this scheduler instead")
    options = parser.parse_args(arguments)
    if options.workers < 1:
        raise UserError(f"--workers {options.workers}: expected 1 or more")
    prepare(options.inputs, options.out.resolve(), options.workers, options.scheduler)


def prepare(inputs, out, workers, scheduler):
    """Do all that DIR does not hold yet, and print the report."""
    plan = make_plan(inputs)
    if not is_done(out, plan) or (out / "work").exists():     # killed while it cleared away
        try:
            with alone_in(out / "work"):
                if not is_done(out, plan):                    # another run may have ended just now
                    begin(out, plan)
                    with cluster(scheduler) if scheduler else local_processes(workers) as executor:
                        parse_dumps(executor, plan, out / "work")
                        join_buckets(executor, plan, out / "work")
                    finish(out, plan)
                shutil.rmtree(out / "work")
        except (OSError, MemoryError, duckdb.Error) as error:  # a full disk, mostly
            raise UserError(f"{out}: {' '.join(str(error).split())}; what is finished is kept: mend that and run the "
                            "same command again") from None
    print_report(out)


# ---------------------------------------------------------------- the plan

def make_plan(inputs):
    """Which files, in which order, into how many buckets: depends on the files alone."""
    paths = sorted({path.resolve() for given in inputs for path in _files(given)})
    dumps = []
    for path in paths:
        check_dump(path)
        stat = path.stat()
        dumps.append([str(path), stat.st_size, stat.st_mtime_ns])
    buckets = min(MOST_BUCKETS, 1 + sum(size for _, size, _ in dumps) // BUCKET_BYTES)
    return {"format": FORMAT, "dumps": dumps, "buckets": buckets}


def _files(given):
    """The files that one INPUT names."""
    if not given.is_dir():
        return [given]
    utterances = sorted(given.glob("utterances.jsonl*"))
    dumps = [path for path in sorted(given.glob("RC_*")) if path.is_file()]
    if not utterances and not dumps:
        raise UserError(f"{given}: this folder holds neither a ConvoKit corpus (utterances.jsonl) nor dumps (RC_…); "
                        "name the files themselves")
    return utterances or dumps


def check_dump(path):
    """Raise UserError unless there is a comment in the first 1,000 lines of a file."""
    lines, reason = DumpLines(path), None
    try:
        for line in islice(lines, 1_000):
            try:
                read_comment(line)
                return
            except ValueError as error:
                reason = reason or f"line {lines.number}: {error}"
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}; name existing dumps") from None
    raise UserError(f"{path}: no comment in the first {lines.number} lines ({reason or lines.cut or 'it is empty'}); "
                    "expected a dump of comments (RC_…), one JSON object a line, or ConvoKit's utterances.jsonl")


def is_done(out, plan):
    """Whether DIR holds the pairs of this plan. Raises UserError where it holds others."""
    for name in ("report.json", "work/plan.json"):
        try:
            found = json.loads((out / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise UserError(f"{out / name}: cannot be read ({error}); choose another --out, or delete this one"
                            ) from None
        if name == "report.json":
            found = found.get("plan") if isinstance(found, dict) else None
        if found != plan:
            raise UserError(f"{out}: was made from other files, or these have changed since; choose another --out, "
                            "or delete this one")
        return name == "report.json"
    for name in ("pairs", "pairs.jsonl.zst", "cache"):
        if (out / name).exists():
            raise UserError(f"{out / name}: is there already, and nothing says what it was made from; choose another "
                            "--out, or delete it")
    return False


@contextmanager
def alone_in(work):
    """Hold a lock on a folder. Raises UserError where another run holds it."""
    work.mkdir(parents=True, exist_ok=True)
    with open(work / "lock", "w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not flock: child processes must not hold it, too
        except BlockingIOError:
            raise UserError(f"{work.parent}: another run is at work in this folder; wait for it, or choose another "
                            "--out") from None
        yield


def begin(out, plan):
    """Make the folders, note the plan, and clear away what a killed run left half done."""
    work = out / "work"
    for folder in ("parsed", "joined"):
        (work / folder).mkdir(parents=True, exist_ok=True)
        for left in (work / folder).glob(f"*{TEMPORARY}"):
            shutil.rmtree(left, ignore_errors=True)
    write_text(work / "plan.json", json.dumps(plan))


# ---------------------------------------------------------------- the two kinds of task

def parse_dumps(executor, plan, work):
    """Every dump into its buckets. The bar counts bytes read, also of dumps in the middle."""
    dumps = plan["dumps"]
    folders = [work / "parsed" / f"{number:05d}" for number in range(len(dumps))]

    def progress(_):
        at = sum(size if folder.is_dir() else _position(folder) for folder, (_, size, _) in zip(folders, dumps))
        bar.update(at - bar.n)

    with tqdm(total=sum(size for _, size, _ in dumps), desc="reading", unit="B", unit_scale=True, leave=False) as bar:
        tasks = [(Path(path), number, plan["buckets"], folders[number]) for number, (path, _, _) in enumerate(dumps)]
        run_tasks(executor, parse_dump, tasks, progress)


def _position(folder):
    """Bytes that an unfinished task has read, as far as it has said."""
    positions = [0]
    for path in folder.parent.glob(f"{folder.name}.*/position"):
        try:
            positions.append(int(path.read_text()))
        except (OSError, ValueError):                         # it is being written, or the task has just ended
            pass
    return max(positions)


def join_buckets(executor, plan, work):
    """Every bucket to its pairs."""
    with tqdm(total=plan["buckets"], desc="joining", unit=" buckets", leave=False) as bar:
        run_tasks(executor, join_bucket, [(bucket, len(plan["dumps"]), work) for bucket in range(plan["buckets"])],
                  lambda done: bar.update(done - bar.n))


# ---------------------------------------------------------------- the end

def finish(out, plan):
    """Buckets to one corpus, packed for training; then the report, which says that all is done.

    What is used up makes room at once; the folders it stood in, and their reports, stay to the end.
    """
    joined = [out / "work" / "joined" / f"{bucket:03d}" for bucket in range(plan["buckets"])]
    report = total(plan, out / "work", joined)
    for path in (out / "work" / "parsed").glob("*/bucket-*.parquet"):
        path.unlink()
    if not (out / "pairs.jsonl.zst").exists():
        replace_file(out / "pairs.jsonl.zst", lambda temporary: _concatenate(
            [folder / "pairs.jsonl.zst" for folder in joined], temporary))
    (out / "pairs").mkdir(exist_ok=True)
    for folder in joined:
        (folder / "pairs.jsonl.zst").unlink(missing_ok=True)
        if (folder / "pairs.parquet").exists():
            os.replace(folder / "pairs.parquet", out / "pairs" / f"{folder.name}.parquet")
    if report["pairs"] >= FEW:
        packed = pack(out)
        report["packed"] = {"kept": packed["kept"], "removed": packed["removed"]}
    write_text(out / "report.json", json.dumps(report, indent=1, ensure_ascii=False) + "\n")


def pack(out):
    """Prepare the corpus that training maps into memory; → what preparing it counted."""
    done, half = out / "cache", out / "work" / "cache"
    if done.exists():                                         # killed between this and the report
        return load_corpus([out / "pairs.jsonl.zst"], TextConfig(), done).report
    shutil.rmtree(half, ignore_errors=True)
    report = load_corpus([out / "pairs.jsonl.zst"], TextConfig(), half).report
    os.replace(half, done)
    return report


def _concatenate(sources, target):
    """zstd frames one after another are a zstd file."""
    with open(target, "wb") as file:
        for source in tqdm(sources, desc="gathering", unit=" buckets", leave=False):
            with open(source, "rb") as part:
                shutil.copyfileobj(part, file)


def total(plan, work, joined):
    """The sums of all tasks' reports, and of each dump what went wrong in it."""
    counts, removed, dumps = Counter(), Counter(), []
    for number, (path, _, _) in enumerate(plan["dumps"]):
        report = json.loads((work / "parsed" / f"{number:05d}" / "report.json").read_text(encoding="utf-8"))
        removed.update(report["removed"])
        counts.update({name: report[name] for name in ("lines", "malformed", "kept")})
        dumps.append({"path": path, **report})
    for folder in joined:
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        counts.update({name: report[name] for name in ("duplicates", "replies", "pairs")})
    return {"plan": plan, **counts, "removed": {reason: removed[reason] for reason in REASONS}, "dumps": dumps}


def print_report(out):
    """What was read, what was left out and why, what was written, and how to go on."""
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    for dump in report["dumps"]:
        if dump["cut"]:
            print(f"{dump['path']}: ends before its time: {dump['cut']}; what came before is kept")
    print("\n".join(table(report)))
    if report["pairs"] < FEW:
        print(f"\nFewer than {FEW:,} pairs: the packed corpus is left to training, which needs about 3,000")
    print(f"\nTrain on them:  python -m convsim_mini.train --pairs {out / 'pairs.jsonl.zst'} --cache {out / 'cache'}")


def table(report):
    """The removal table: lines of text."""
    lines, rows = report["lines"], [("lines read", report["lines"]), ("malformed", report["malformed"])]
    rows += [(f"{reason}: {REASONS[reason]}", number) for reason, number in report["removed"].items()]
    rows += [("comments kept", report["kept"]), ("of these, a second time", report["duplicates"]),
             ("of these, replies to comments", report["replies"]),
             ("pairs: the comment they answer is kept, too", report["pairs"])]
    return [f"{name:76} {number:>15,} {number / lines:7.1%}" for name, number in rows]


if __name__ == "__main__":
    with errors_in_one_line():
        main()
