"""Monthly dumps of Reddit comments, or ConvoKit corpora → (input, response) pairs to train on.

    python -m data_scripts.prepare_reddit INPUT… --out DIR

writes to DIR: pairs/*.parquet (with the comments' ids), pairs.jsonl.zst (what training reads),
cache/ (the packed corpus, so that training starts at once) and report.json. If the command is
stopped, run it again: it continues after the last finished dump or bucket.
"""

if not __package__:
    raise SystemExit("run it by name, in the repository: python -m data_scripts.prepare_reddit")

import json
import os
import shutil
from collections import Counter
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from convsim_mini.common.cli import (
    Parser, UserError, errors_in_one_line, path_of, positive_int, python_m, user_errors)
from convsim_mini.common.files import OURS, check_folder, locked, replace_file, write_text
from convsim_mini.common.lines import parse_object
from convsim_mini.common.processes import local_processes
from convsim_mini.common.show import table
from convsim_mini.config import TextConfig
from convsim_mini.data.prepare import load_corpus
from convsim_mini.fast.host import number_of_cores
from data_scripts import libraries
from data_scripts.tasks import cluster, run_tasks

with libraries():
    import duckdb
    from data_scripts.buckets import join_bucket, parse_dump
    from data_scripts.comments import REASONS, DumpLines, read_comment

FORMAT = 2
WORK = f"{OURS}.work"                        # a folder in DIR
BUCKET_BYTES, MOST_BUCKETS = 1 << 26, 512    # bytes of the input files, mostly compressed tenfold
ADVICE = "choose another folder with --out"
GO_ON = "what is finished is kept: run the same command again, with fewer --workers"
FEW = 5_000                                  # pairs; fewer may leave a split too small to train on


@errors_in_one_line()
def main(arguments=None):
    """The command."""
    parser = Parser("data_scripts.prepare_reddit", __doc__)
    parser.add_argument("inputs", nargs="+", type=path_of, metavar="INPUT",
                        help="a dump (RC_YYYY-MM: plain, gzip, bzip2, xz, zstd), a folder of them, "
                             "or a ConvoKit corpus")
    parser.add_argument("--out", type=path_of, required=True, metavar="DIR",
                        help="folder for the pairs")
    parser.add_argument("--workers", type=positive_int, default=number_of_cores(),
                        metavar="N", help="processes on this machine (default: one per core)")
    parser.add_argument("--scheduler", metavar="ADDRESS",
                        help="run on the dask cluster with this scheduler instead")
    options = parser.parse_args(arguments)
    prepare_pairs(options.inputs, Path(os.path.realpath(options.out)), options.workers,
                  options.scheduler)


def prepare_pairs(inputs, out, workers, scheduler):
    """Do what has not been done yet, and print the report."""
    plan = make_plan(inputs)
    with user_errors(f"{out}: cannot be written", ADVICE, (OSError, UnicodeEncodeError)):
        str(out).encode()                                     # DuckDB writes no other names
        done = is_done(out, plan)
        out.mkdir(parents=True, exist_ok=True)
    if not done or (out / WORK).exists():                     # a run was killed while tidying up
        try:
            with locked(out, f"{out}: another run is working in this folder; wait for it, "
                        "or choose another --out"):
                (out / WORK).mkdir(exist_ok=True)
                if not is_done(out, plan):                    # another run may have ended just now
                    do_tasks(out, plan, workers, scheduler)
                    finish(out, plan)
                shutil.rmtree(out / WORK)
        except (OSError, MemoryError, duckdb.Error) as error:    # mostly a full disk
            raise UserError(f"{out}: {' '.join(str(error).split())}; what is finished is kept: "
                            "fix that and run the same command again") from None
    print_report(out)


def do_tasks(out, plan, workers, scheduler):
    """Parse the dumps and join the buckets that are not finished yet."""
    remove_unfinished(out / WORK)                             # of a run that was killed
    write_text(out / WORK / "plan.json", json.dumps(plan))
    try:
        # fresh processes: a fork could inherit a lock that a thread here holds
        with (cluster(scheduler) if scheduler else
              local_processes(workers, GO_ON, "spawn")) as executor:
            run_tasks(executor, parse_dump, [
                (Path(path), number, plan["buckets"], out / WORK)
                for number, (path, _, _) in enumerate(plan["dumps"])], "dumps")
            run_tasks(executor, join_bucket, [(bucket, len(plan["dumps"]), out / WORK)
                                              for bucket in range(plan["buckets"])], "buckets")
    finally:                                                  # its processes were ended at once
        remove_unfinished(out / WORK)


# ---------------------------------------------------------------- the plan

def make_plan(inputs):
    """Which files, in which order, into how many buckets. It depends only on the files."""
    paths = sorted({Path(os.path.realpath(path)) for given in inputs for path in _files(given)})
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
        raise UserError(f"{given}: this folder holds neither a ConvoKit corpus (utterances.jsonl) "
                        "nor dumps (RC_…); name the files themselves")
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
        raise UserError(f"{path}: cannot be read: {error.strerror or error}; name existing dumps"
                        ) from None
    raise UserError(f"{path}: no comment in the first {lines.number} lines "
                    f"({reason or lines.cut or 'it is empty'}); expected a dump of comments "
                    "(RC_…), one JSON object per line, or ConvoKit's utterances.jsonl")


def is_done(out, plan):
    """True if DIR holds the pairs of this plan; False if they are begun, or it is empty or absent.

    Raises UserError if it holds anything else.
    """
    # in this order, since another run writes the second before it removes the first
    begun, report = (stored(out / name) for name in (f"{WORK}/plan.json", "report.json"))
    check_folder(out, ADVICE, lambda out: begun or report.get("plan") or all(
        path.name.startswith(OURS) for path in out.iterdir()))
    found = report.get("plan"), report.get("sizes")
    if begun not in ({}, plan) or report and found != (plan, sizes_in(out)):
        raise UserError(f"{out}: was made from other files, or these or the pairs have changed "
                        f"since; {ADVICE}")
    return bool(report)


def stored(path):
    """The object in a JSON file: {} if there is no file, {"plan": None} if it holds none."""
    try:
        return parse_object(path.read_text(encoding="utf-8"))
    except OSError:
        return {}
    except ValueError:
        return {"plan": None}


def sizes_in(out):
    """The bytes of each file of pairs: name → size."""
    files = [out / "pairs.jsonl.zst", *sorted((out / "pairs").glob("*.parquet"))]
    return {path.name: path.stat().st_size for path in files if path.exists()}


def remove_unfinished(work):
    """Remove what tasks left half done."""
    for left in work.glob(f"*/{OURS}-*"):
        shutil.rmtree(left, ignore_errors=True)


# ---------------------------------------------------------------- the end

def finish(out, plan):
    """Gather all buckets into one corpus, and pack it; the report comes last, as a sign of success.

    Files are removed as soon as they are used up, to make room. Their folders and reports stay
    until the end.
    """
    joined = sorted((out / WORK / "joined").glob("[0-9]*"))
    report = total(plan, out / WORK)
    for path in (out / WORK / "parsed").glob("*/bucket-*.parquet"):
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
    report["sizes"] = sizes_in(out)
    text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    # the name of a dump may hold bytes that are not UTF-8: as JSON's \udcXX they are read again
    write_text(out / "report.json", text.encode("utf-8", "backslashreplace").decode())


def pack(out):
    """Prepare the corpus that training maps into memory; → its counts."""
    done, half = out / "cache", out / WORK / "cache"
    if done.exists():                                         # killed before the report was written
        return load_corpus([out / "pairs.jsonl.zst"], TextConfig(), done).report
    shutil.rmtree(half, ignore_errors=True)
    report = load_corpus([out / "pairs.jsonl.zst"], TextConfig(), half).report
    os.replace(half, done)
    return report


def _concatenate(sources, target):
    """Join zstd files into one: concatenated frames are a valid zstd file."""
    with open(target, "wb") as file:
        for source in tqdm(sources, desc="gathering", unit=" buckets", leave=False):
            with open(source, "rb") as part:
                shutil.copyfileobj(part, file)


def total(plan, work):
    """The sums of all tasks' reports, and each dump's own report."""
    counts, removed, dumps = Counter(), Counter(), []
    for (path, _, _), file in zip(plan["dumps"], sorted(work.glob("parsed/*/report.json"))):
        report = stored(file)
        removed.update(report["removed"])
        counts.update({name: report[name] for name in ("lines", "malformed", "kept")})
        dumps.append({"path": path, **report})
    for report in map(stored, work.glob("joined/*/report.json")):
        counts.update({name: report[name] for name in ("duplicates", "replies", "pairs")})
    removed = {reason: removed[reason] for reason in REASONS}
    return {"plan": plan, **counts, "removed": removed, "dumps": dumps}


def print_report(out):
    """Print what was read, what was left out and why, what was written, and the next step."""
    report = stored(out / "report.json")
    for dump in report["dumps"]:
        if dump["cut"]:
            print(f"{dump['path']}: ends too early: {dump['cut']}; what came before is kept")
    lines = report["lines"]
    rows = [("lines read", lines), ("malformed", report["malformed"]),
            *((f"{reason}: {REASONS[reason]}", number)
              for reason, number in report["removed"].items()),
            ("comments kept", report["kept"]), ("of these, duplicates", report["duplicates"]),
            ("of these, replies to comments", report["replies"]),
            ("pairs: replies to another person's comment that is kept, too", report["pairs"])]
    print(table(["", "number", "of the lines"],
                [(what, f"{number:,}", f"{number / lines:.1%}") for what, number in rows]))
    if report["pairs"] < FEW:
        print(f"\nFewer than {FEW:,} pairs: the packed corpus is left to training, which needs "
              "about 500")
    print("\nTrain on them:  " + python_m(
        "convsim_mini.train --pairs", out / "pairs.jsonl.zst", "--cache", out / "cache"))


if __name__ == "__main__":
    main()
