"""All that wants a GPU in one command, or in parts that fit ten minutes each: tests/README.md.

    CONVSIM_DATA=DIR python tests/benchmarks/benchmark_gpu.py --out FOLDER

The parts, in this order; --parts picks some, --tools, --encoders and --cases pick of a part:
  tests      pytest on the GPU's tests
  sanitizer  the kernels' tests under compute-sanitizer, where that is installed
  batches    what speed reads, into --batches; wants no GPU
  speed      beside PyTorch in one run (contenders.py): by turns, each in a process of its own
  profile    of a step of ours: the host's time, and each kernel's, into profile.txt
  train      some steps of each encoder, and what it learned
A part that fails is reported and the others go on; when --minutes are spent, the rest is skipped.
FOLDER/summary.md is written after each item of a part, log.txt holds what the commands printed.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from contenders import ROOT, Case, pair_files

PYTHON, CONTENDERS = sys.executable, ROOT / "tests" / "benchmarks" / "contenders.py"
KERNEL_TESTS = "tests/gpu/test_kernels.py"
ALONE = ["-q", "-o", "addopts=", "-m", "gpu and not emulated"]    # in one process
# without CuPy's pool a kernel that leaves its array meets no other array, so memcheck sees it
WITHOUT_POOL = ("import sys, cupy, pytest; cupy.cuda.set_allocator(None); "
                "sys.exit(pytest.main(sys.argv[1:]))")
# libraries ask the driver for what it may not have: to memcheck each such call is an error
TOOLS = {"memcheck": ["--report-api-errors", "no"], "racecheck": [], "synccheck": [],
         "initcheck": []}
RUNS = {"DAN": ["--preset", "chat"], "Transformer": ["--preset", "transformer"]}
CASES = {
    "Transformer, 128 pairs": Case("transformer", "training", 128, (
        "ours", "padded", "packed", "nested", "compiled")),
    "Transformer, 1,024 pairs": Case("transformer", "training", 1024, ("ours", "sgemm")),
    "DAN, 128 pairs": Case("paper", "training", 128, ("ours", "bag")),
    "DAN, 1,024 pairs": Case("paper", "training", 1024, ("ours", "bag")),
    "encoding, DAN": Case("paper", "bulk", 500_000, ("ours", "bag"), steps=(1, 1, 1)),
    "encoding, Transformer": Case("transformer", "bulk", 50_000, ("ours", "padded", "nested"),
                                  steps=(1, 1, 1)),
}


class Row(NamedTuple):
    """A line of the summary. reached: "yes", "no", or "" where there is no target."""

    part: str
    measured: str
    target: str = ""
    reached: str = ""


class NoTime(Exception):
    """The minutes of --minutes are spent."""


def run(command, options, minutes):
    """Run a command, at most so long; → its exit code, its output, which log.txt gets as well.

    The code is -1 where the limit ended it. What it started ends with it. Raises NoTime.
    """
    end = time.monotonic() + 60 * minutes
    if time.monotonic() >= options.until:
        raise NoTime
    path = options.out / "log.txt"
    with open(path, "a", encoding="utf-8") as log:
        print(f"$ {shlex.join(map(str, command))}", file=log, flush=True)
        begin = path.stat().st_size
        # A group of its own, to end it whole; no session of its own, or it could outlive ours.
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT,
                                   process_group=0)
        while process.poll() is None and time.monotonic() < min(end, options.until):
            time.sleep(0.1)
        code = process.poll()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if code is None:
            if time.monotonic() >= options.until:
                raise NoTime
            print(f"stopped after {minutes:g} minutes", file=log)
            code = -1
    return code, path.read_bytes()[begin:].decode(errors="replace")


def last_line(text):
    """The last line of an output that says something."""
    return (text.strip().splitlines() or ["no output"])[-1].strip()[:200]


def tests(options, file):
    """The GPU's tests, but for those that want the emulated one; a skipped test shows nothing."""
    code, text = run([PYTHON, "-m", "pytest", *ALONE, "-rs", file], options, 10)
    good = code == 0 and "skipped" not in last_line(text)
    return [Row(f"tests: {file}", last_line(text), "all pass, none is skipped",
                "yes" if good else "no")]


def sanitizer(options, tool):
    """The kernels' tests under one of compute-sanitizer's tools."""
    if not shutil.which("compute-sanitizer"):
        return [Row(f"sanitizer: {tool}", "not measured: compute-sanitizer is not on the PATH")]
    code, text = run(["compute-sanitizer", "--tool", tool, *TOOLS[tool], "--error-exitcode", "9",
                      PYTHON, "-c", WITHOUT_POOL, *ALONE, "-x", KERNEL_TESTS], options, 5)
    found = re.findall(r"=+ (\w+ SUMMARY: .*)", text)
    if not found:                                             # some machines refuse it the device
        return [Row(f"sanitizer: {tool}", f"not measured: {last_line(text)}")]
    return [Row(f"sanitizer: {tool}", found[-1], "0 errors", "no" if code else "yes")]


def batches(options, name):
    """The file of a case's batches in --batches, its size."""
    return [Row(f"batches: {name}", f"{batch_file(options, name).stat().st_size / 1e6:.1f} MB")]


def batch_file(options, name):
    """The path of a case's batches, which are prepared where there is no file."""
    case = CASES[name]
    path = options.batches / f"{case.task}-{case.size}.npz"
    if not path.exists():
        contend(options, ["--prepare", json.dumps(case), path, *options.pairs])
    return path


def contend(options, arguments):
    """Run contenders.py; → its output. Raises RuntimeError where it fails."""
    code, text = run([PYTHON, CONTENDERS, *arguments], options, 5)
    if code:
        raise RuntimeError(last_line(text))
    return text


def speed(options, name):
    """A case's contenders, medians of their turns: time, how many times ours, operations."""
    path, case = batch_file(options, name), CASES[name]
    measured = {contender: tuple(map(statistics.median, zip(*runs)))
                for contender, runs in turns(options, case, path).items()}
    ours, rows = (measured["ours"] or [0])[0], []
    for contender, some in measured.items():
        told = "not measured: see log.txt"
        if some:
            seconds, _, rate, sentences = some
            each = seconds / sentences if case.task == "bulk" else seconds
            told = (f"{1e6 * each:,.1f} µs, {seconds / ours if ours else 0:.2f} × ours, "
                    f"{rate / 1e12:,.1f} TFLOP/s")
        rows.append(Row(f"speed: {name}, {contender}", told))
    return rows


def profile(options, name):
    """The time of a step of ours, and of the host in it; profile.txt gets the kernels' times."""
    text = contend(options, ["--profile", json.dumps(CASES[name]), batch_file(options, name)])
    with open(options.out / "profile.txt", "a", encoding="utf-8") as file:
        print(f"{name}\n\n{text}", file=file)
    return [Row(f"profile: {name}", re.search(r".* ms a step.*", text)[0])]


def turns(options, case, path):
    """Let contenders work by turns: name → what each turn measured; one that fails drops out."""
    measured = {contender: [] for contender in case.contenders}
    left = list(measured)
    for _ in range(options.rounds):
        for contender in list(left):
            try:
                text = contend(options, ["--work", contender, json.dumps(case), path])
                measured[contender].append(json.loads(last_line(text)))
            except RuntimeError:
                left.remove(contender)
            except NoTime:
                if not any(measured.values()):
                    raise
                return measured
    return measured


def train(options, encoder):
    """Steps of an encoder on real conversations; the log and the curves are kept."""
    folder, data = options.scratch / encoder, os.environ.get("CONVSIM_DATA")
    extra = ["--pairs", *options.pairs] if options.pairs else []
    extra += ["--data", data] if data and Path(data, "stsbenchmark").is_dir() else []
    code, text = run([PYTHON, "-m", "convsim_mini.train", *RUNS[encoder], "--device", "gpu",
                      "--steps", str(options.train_steps), "--evaluations", "8", "--run", folder,
                      *extra], options, 10)
    for kept in ("log.jsonl", "curves.png"):
        with suppress(FileNotFoundError):
            shutil.copy(folder / kept, options.out / f"train-{encoder}-{kept}")
    if code:
        return [Row(f"train: {encoder}", f"failed: {last_line(text)}", "", "no")]
    tables = re.findall(r"^(.*)\n\n.*\n-.*\ntrained {2,}(.*)", text, re.MULTILINE)
    return [Row(f"train: {encoder}, {title}", " ".join(figures.split()))
            for title, figures in tables]


PARTS = {"tests": tests, "sanitizer": sanitizer, "batches": batches, "speed": speed,
         "profile": profile, "train": train}    # each a function of options and an item


def missing(options):
    """Names of the packages that are not installed, and of CuPy where it is older than 14."""
    wanted = re.findall(r"^[\w.-]+", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.M)
    wanted += ["pytest", "pytest-xdist", "hypothesis"]
    wanted += ["torch"] if {"speed", "profile"} & {*options.parts} else []
    names = ["cupy-cuda12x>=14 or cupy-cuda13x>=14"] if options.parts != ["batches"] else []
    if find_spec("cupy"):
        import cupy
        names = names if int(cupy.__version__.partition(".")[0]) < 14 else []
    for name in wanted:
        try:
            distribution(name)
        except PackageNotFoundError:
            names.append(name)
    return names


def versions():
    """What computes, in a line."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                               "--format=csv,noheader"], capture_output=True, text=True)
        return f"card, driver, memory: {last_line(done.stdout or done.stderr)}"
    except OSError as error:
        return f"nvidia-smi: {error}"


def summary(about, rows):
    """The versions and the rows as Markdown."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    table = [["part", "measured", "target", "reached"], ["---"] * 4, *rows]
    return "\n".join([about, "", *(f"| {' | '.join(row)} |" for row in table), ""])


def rows_of(options, part, item):
    """The rows of one item of a part, whatever happens in it."""
    try:
        return PARTS[part](options, item)
    except NoTime:
        return [Row(f"{part}: {item}", f"skipped: the {options.minutes:g} minutes are spent")]
    except Exception as error:                                # the others still count
        return [Row(f"{part}: {item}", f"failed: {type(error).__name__}: {error}", "", "no")]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for at most eight files")
    parser.add_argument("--parts", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--tools", choices=TOOLS, nargs="+", default=list(TOOLS))
    parser.add_argument("--encoders", choices=RUNS, nargs="+", default=list(RUNS))
    parser.add_argument("--cases", choices=CASES, nargs="+", default=list(CASES))
    parser.add_argument("--minutes", type=float, default=30, help="what does not fit is skipped")
    parser.add_argument("--train-steps", type=int, default=10_000, help="of each encoder")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each contender")
    parser.add_argument("--pairs", type=Path, nargs="+", default=pair_files(),
                        help="pair files; Reddit's of CONVSIM_DATA, or the default corpus")
    parser.add_argument("--batches", type=Path, help="folder that keeps the batches of speed")
    options = parser.parse_args()
    options.until = time.monotonic() + 60 * options.minutes
    # commands run in the repository
    options.out, options.pairs = options.out.resolve(), [Path(p).resolve() for p in options.pairs]
    if data := os.environ.get("CONVSIM_DATA"):
        os.environ["CONVSIM_DATA"] = str(Path(data).resolve())
    if names := missing(options):
        sys.exit(f"missing: {', '.join(names)}; without a network, bring their wheels")
    options.out.mkdir(parents=True, exist_ok=True)
    if any(options.out.iterdir()):
        parser.error(f"--out {options.out}: holds files already; choose another folder")
    return options


def main():
    options = parse_options()
    # A signal leaves no time, so `run` ends what it has started and the rest is skipped. If this
    # raised instead, it could do so while Popen holds its lock, and wait() would never return.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(options, "until", time.monotonic()))
    items = {"tests": ["tests/gpu/test_gpu.py", KERNEL_TESTS], "sanitizer": options.tools,
             "batches": options.cases, "speed": options.cases, "train": options.encoders,
             "profile": [name for name in options.cases if CASES[name].task == "training"]}
    about, rows = versions(), []
    with tempfile.TemporaryDirectory() as scratch:
        options.scratch = Path(scratch)
        options.batches = (options.batches or options.scratch).resolve()
        options.batches.mkdir(parents=True, exist_ok=True)
        for part in [name for name in PARTS if name in options.parts]:
            for item in items[part]:
                print(f"{part}: {item} …", flush=True)
                rows += rows_of(options, part, item)
                (options.out / "summary.md").write_text(summary(about, rows), encoding="utf-8")
    print(summary(about, rows))


if __name__ == "__main__":
    main()
