"""What lessons claim, over five seeds: run each lesson five times and print its claims as a table.

    python -m lessons.claims 9 16         these lessons; without numbers all
    python -m lessons.claims 9 --write    put the table into claims.md
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev

from tqdm import tqdm

from convsim_mini.common.cli import Parser, errors_in_one_line

from .book.contents import chosen

LESSONS = Path(__file__).resolve().parent
SEEDS = range(1, 6)    # besides 0, that of the printed numbers
HEAD = "| claim | mean ± sd | least to most | refuted |\n| --- | --- | --- | --- |"
FILE = LESSONS / "claims.md"
TEXT = """# What the lessons claim

Over five seeds, as `python -m lessons.claims` prints it. The last column says which values would
refute a claim. The numbers in the lessons' texts are those of one seed more, the default.
"""


def run(path, seed):
    """Run a lesson with a seed → its claims (what, value, low, high), and why it failed or ""."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "claims")
        variables = {"LESSON_SEED": str(seed), "LESSON_CLAIMS": str(told), "MPLBACKEND": "Agg",
                     "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, path], env={**os.environ, **variables}, cwd=folder,
                              capture_output=True, text=True)
        lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
        return [json.loads(line) for line in lines], done.stderr[-2_000:] if done.returncode else ""


def number(value):
    """A number as a table shows it: three digits, or as many as it has before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def refuted(low, high):
    """Which values refute a claim."""
    parts = [f"below {number(low)}"] if low > -float("inf") else []
    return ", ".join(parts + ([f"above {number(high)}"] if high < float("inf") else []))


def table(runs):
    """The claims of several runs of one lesson as Markdown."""
    rows = [HEAD]
    for claims in zip(*runs):
        (what, _, low, high), values = claims[0], [claim[1] for claim in claims]
        assert "|" not in what, f"{what}: a bar would end the table's cell"
        rows.append(f"| {what} | {number(mean(values))} ± {float(f'{stdev(values):.1g}'):g} | "
                    f"{number(min(values))} to {number(max(values))} | {refuted(low, high)} |")
    return "\n".join(rows)


def read():
    """The tables of claims.md: the name of a lesson's file → Markdown."""
    text = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    return dict(re.findall(r"^## \[.*\]\((.*)\)\n\n((?:\|.*\n)+)", text, re.MULTILINE))


def write(found):
    """Put tables into claims.md, instead of those that it has. found: as `read` gives them"""
    parts = [f"\n## [{name.partition('_')[0].lstrip('0') or 0}]({name})\n\n{rows.rstrip()}\n"
             for name, rows in sorted({**read(), **found}.items())]
    FILE.write_text(TEXT + "".join(parts), encoding="utf-8")


def main(argv=None):
    """The command."""
    parser = Parser("lessons.claims", __doc__)
    parser.add_argument("lessons", nargs="*", help="numbers or letters; all, if none is given")
    parser.add_argument("--write", action="store_true", help="put the tables into claims.md")
    with errors_in_one_line():
        options = parser.parse_args(argv)
        paths = [lesson.path for lesson in chosen(options.lessons)]
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        jobs = {path: [executor.submit(run, path, seed) for seed in SEEDS] for path in paths}
        failed = False
        for path, futures in tqdm(jobs.items(), "lessons", disable=None):
            runs, errors = zip(*(future.result() for future in futures))
            failed |= any(errors)
            tqdm.write("\n".join([path.name, *filter(None, errors), table(runs), ""]))
            if options.write and not any(errors):
                write({path.name: table(runs)})
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
