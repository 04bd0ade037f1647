"""All that wants a GPU in one command.

    CONVSIM_DATA=DIR python tests/benchmarks/benchmark_gpu.py --out FOLDER

It is meant for half an hour of one H100 or H200, and needs PyTorch with CUDA beside CuPy. Without
CONVSIM_DATA it reads the default corpus. The parts, in this order; --parts picks some:
  tests      pytest on the GPU's tests
  sanitizer  the kernels' tests under compute-sanitizer, where that is installed
  repeat     two runs with one seed must end in the same bits
  speed      beside PyTorch in one run (gpu_contenders.py): by turns, each in a process of its own
  train      some minutes of each encoder, and what it learned
Each command has a time limit and a file for its output in FOLDER. A part that fails is reported and
the others go on. FOLDER/summary.md is written after each part. --smoke makes repeat, speed and
train small and runs them on the CPU, to try this script.
"""

import argparse
import hashlib
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
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from benchmark_dan import ROOT, in_turns, pair_files
from gpu_contenders import CASES, SMOKE

PYTHON, CONTENDERS = sys.executable, ROOT / "tests" / "benchmarks" / "gpu_contenders.py"
KERNEL_TESTS = "tests/gpu/test_kernels.py"
# without CuPy's pool a kernel that leaves its array meets no other array, so memcheck sees it
ALONE = ["-q", "-o", "addopts="]    # in one process
WITHOUT_POOL = ("import sys, cupy, pytest; cupy.cuda.set_allocator(None); "
                "sys.exit(pytest.main(sys.argv[1:]))")
RUNS = {"DAN": ["--preset", "chat"], "Transformer": ["--preset", "transformer"]}
REPEATED = {"DAN": RUNS["DAN"],
            "Transformer": [*RUNS["Transformer"], "--model.transformer_layers", "2"]}
CONTENDER_SECONDS = 300
SMALL_PRINT = ["--smoke: everything small and on the CPU, so no figure below means anything"]
VERSIONS = {
    "card, driver, memory": ["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                             "--format=csv,noheader"],
    "CuPy, CUDA runtime, highest CUDA of the driver": [
        PYTHON, "-c", "import cupy; print(cupy.__version__, cupy.cuda.runtime.runtimeGetVersion(), "
                      "cupy.cuda.runtime.driverGetVersion())"],
    "PyTorch, CUDA": [PYTHON, "-c", "import torch; print(torch.__version__, torch.version.cuda)"],
}


class Row(NamedTuple):
    """A line of the summary. reached: True, False, or None where there is no target."""

    part: str
    measured: str
    target: str = ""
    reached: bool | None = None


class Target(NamedTuple):
    """How much faster `mine` shall be than the best of `others`, or its share of their rate."""

    case: str
    mine: str
    others: tuple
    at_least: float
    share: bool = False


TARGETS = [
    Target("Transformer, 128 pairs", "ours tf32", ("torch padded",), 2.0),
    Target("Transformer, 128 pairs", "ours tf32",
           ("torch packed", "torch nested", "torch compiled"), 1.0),
    Target("Transformer, 1,024 pairs", "ours tf32", ("cublas",), 0.4, share=True),
    Target("Transformer, 1,024 pairs", "ours bf16", ("ours tf32",), 1.4),
    Target("DAN, 128 pairs", "ours tf32", ("torch bag",), 2.0),
    Target("DAN, 1,024 pairs", "ours tf32", ("torch bag",), 2.0),
    Target("encoding, DAN", "ours tf32", ("torch bag",), 1.5),
    Target("encoding, Transformer", "ours tf32", ("torch padded", "torch nested"), 1.5),
]


def run(command, log, minutes):
    """Run a command, at most so long, and append its output to a file; → its exit code.

    The code is negative where the limit ended it. What it started ends with it.
    """
    with open(log, "a", encoding="utf-8") as file:
        print(f"$ {shlex.join(map(str, command))}", file=file, flush=True)
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT,
                                   start_new_session=True)
        try:
            return process.wait(60 * minutes)
        except subprocess.TimeoutExpired:
            print(f"stopped after {minutes:g} minutes", file=file)
            return -1
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def last_line(text):
    """The last line of an output that says something."""
    return (text.strip().splitlines() or ["no output"])[-1].strip()[:200]


def tests(options):
    """The GPU's tests; one that is skipped has shown nothing."""
    log = options.out / "tests.txt"
    code = run([PYTHON, "-m", "pytest", *ALONE, "-rs", "tests/gpu/test_gpu.py", KERNEL_TESTS], log,
               6)
    result = last_line(log.read_text(encoding="utf-8"))
    return [Row("tests", result, "all pass, none is skipped",
                code == 0 and "skipped" not in result)]


def sanitizer(options):
    """The kernels' tests under two of compute-sanitizer's tools."""
    if not shutil.which("compute-sanitizer"):
        return [Row("sanitizer", "not measured: compute-sanitizer is not on the PATH")]
    rows = []
    for tool in ("memcheck", "racecheck"):
        log = options.out / f"{tool}.txt"
        code = run(["compute-sanitizer", "--tool", tool, "--error-exitcode", "9",
                    PYTHON, "-c", WITHOUT_POOL, *ALONE, "-x", KERNEL_TESTS], log, 5)
        text = log.read_text(encoding="utf-8")
        found = re.findall(r"=+ (\w+ SUMMARY: .*)", text)
        rows.append(Row(f"sanitizer: {tool}", found[-1] if found else last_line(text), "0 errors",
                        code == 0 and bool(found)))
    return rows


def train(options, settings, folder, log, minutes):
    """Train a run in a folder; → the exit code."""
    device, small = ("cpu", SMOKE.options) if options.smoke else ("gpu", [])
    pairs = pair_files()
    return run([PYTHON, "-m", "convsim_mini.train", *settings, "--device", device, *small,
                *(["--pairs", *pairs] if pairs else []), "--run", folder], log, minutes)


def repeat(options):
    """Two runs with one seed, compared by the checksums of their weights."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name, settings in REPEATED.items():
            log, sums = options.out / f"repeat-{name}.txt", []
            for k in (1, 2):
                folder = Path(scratch, f"{name}-{k}")
                steps = ["--steps", "4" if options.smoke else "100", "--evaluations", "1"]
                train(options, [*settings, *steps], folder, log, 4)
                sums += [hashlib.sha256(path.read_bytes()).hexdigest()[:16]
                         for path in folder.glob("weights-*.safetensors")]
            measured = " and ".join(sums) if len(sums) == 2 else (
                f"failed: {last_line(log.read_text(encoding='utf-8'))}")
            rows.append(Row(f"repeat: {name}", measured, "the same bits",
                            len(sums) == 2 and len(set(sums)) == 1))
    return rows


def speed(options):
    """Every case's contenders by turns; speed.json holds all that they measured."""
    log, measured = options.out / "speed.txt", {}
    smoke = ["--smoke"] if options.smoke else []
    with tempfile.TemporaryDirectory() as scratch:
        for name, case in CASES.items():
            path = Path(scratch, "batches.npz")
            if run([PYTHON, CONTENDERS, name, path, *smoke], log, 5):
                continue
            measured[name] = turns(case.contenders, [name, path, *smoke], options.rounds, log)
            text = json.dumps(measured, indent=1)
            (options.out / "speed.json").write_text(text + "\n", encoding="utf-8")
            print(f"{name}: {json.dumps(measured[name])}", flush=True)
    return [speed_row(target, measured.get(target.case, {})) for target in TARGETS]


def turns(contenders, arguments, rounds, log):
    """Let contenders work by turns: name → what each turn measured; one that fails drops out."""
    measured, left = {name: [] for name in contenders}, list(contenders)
    for name in rounds * list(contenders):
        if name not in left:
            continue
        try:
            measured[name] += in_turns(CONTENDERS, {name: (name, os.cpu_count())}, arguments, 1,
                                       CONTENDER_SECONDS)[name]
        except (subprocess.SubprocessError, ValueError) as error:
            left.remove(name)
            reason = getattr(error, "stderr", None) or b""
            with open(log, "a", encoding="utf-8") as file:
                print(f"{name}: {error}\n{reason.decode(errors='replace')}", file=file)
    return measured


def speed_row(target, measured):
    """A Target beside what was measured for its case: name → [[seconds, operations a second]]."""
    medians = {name: [statistics.median(values) for values in zip(*runs)]
               for name, runs in measured.items() if runs}
    others = {name: medians[name] for name in target.others if name in medians}
    what = f"speed: {target.case}, {target.mine} against {' / '.join(target.others)}"
    goal = f"≥ {target.at_least:.0%}" if target.share else f"≥ {target.at_least:.1f}×"
    if target.mine not in medians or not others:
        return Row(what, "failed: see speed.txt", goal, False)
    seconds, rate = medians[target.mine]
    if target.share:
        (_, best), = others.values()
        value = rate / best
        return Row(what, f"{value:.0%} of {best / 1e12:,.1f} TFLOP/s", goal,
                   value >= target.at_least)
    name = min(others, key=lambda name: others[name][0])
    value = others[name][0] / seconds
    missing = "".join(f"; {other} failed" for other in target.others if other not in others)
    return Row(what, f"{value:.2f}×: {shown(seconds)} against {shown(others[name][0])} of {name}"
               f"{missing}", goal, value >= target.at_least and not missing)


def shown(seconds):
    """Seconds for a step or a sentence with a unit that fits."""
    return f"{1e3 * seconds:.2f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.2f} µs"


def learn(options):
    """Minutes of each encoder on real conversations; the log, curves and summary are kept."""
    data = os.environ.get("CONVSIM_DATA")
    minutes, rows = options.train_minutes, []
    with tempfile.TemporaryDirectory() as scratch:
        for name, settings in RUNS.items():
            log, folder = options.out / f"train-{name}.txt", Path(scratch, name)
            extra = ["--minutes", f"{minutes:g}", "--evaluations", "8"]
            extra += ["--data", data] if data else []
            code = train(options, [*settings, *extra], folder, log, 2 * minutes + 6)
            for kept in ("log.jsonl", "p_at_n.png", "loss.png"):
                with suppress(FileNotFoundError):
                    shutil.copy(folder / kept, options.out / f"train-{name}-{kept}")
            rows += learned(name, code, log.read_text(encoding="utf-8"))
    return rows


def learned(name, code, text):
    """What the training command printed at its end about P@N and STS, as rows."""
    if code:
        return [Row(f"train: {name}", f"failed: {last_line(text)}", "", False)]
    scores = [" ".join(line.split()[1:]) for line in text.splitlines()
              if line.startswith("trained ")]
    return [Row(f"train: {name}, {what}", score)
            for what, score in zip(("test P@1, P@3, P@10", "STS, r / rho"), scores)]


PARTS = {"tests": tests, "sanitizer": sanitizer, "repeat": repeat, "speed": speed, "train": learn}


def versions():
    """What computes: the card and the libraries, one line each."""
    lines = []
    for name, command in VERSIONS.items():
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            lines.append(f"{name}: {last_line(done.stdout or done.stderr)}")
        except (OSError, subprocess.SubprocessError) as error:
            lines.append(f"{name}: {error}")
    return lines


def summary(about, rows):
    """The versions and the rows as Markdown."""
    word = {True: "yes", False: "no", None: ""}
    cells = [[*(text.replace("|", "\\|") for text in row[:3]), word[row.reached]] for row in rows]
    table = ["| part | measured | target | reached |", "| --- | --- | --- | --- |",
             *(f"| {' | '.join(row)} |" for row in cells)]
    return "\n".join([*(f"- {line}" for line in about), "", *table, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--parts", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=2, help="turns of each contender of speed")
    parser.add_argument("--train-minutes", type=float, default=8)
    parser.add_argument("--smoke", action="store_true",
                        help="repeat, speed and train small, on the CPU")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    if any(options.out.iterdir()):
        parser.error(f"--out {options.out}: holds files already; choose another folder")
    if data := os.environ.get("CONVSIM_DATA"):
        os.environ["CONVSIM_DATA"] = str(Path(data).resolve())    # commands run in the repository
    about, rows = [*versions(), *(SMALL_PRINT if options.smoke else [])], []
    for part in [name for name in PARTS if name in options.parts]:
        print(f"{part} …", flush=True)
        try:
            rows += PARTS[part](options)
        except Exception as error:                            # the other parts still count
            rows.append(Row(part, f"failed: {type(error).__name__}: {error}", "", False))
        (options.out / "summary.md").write_text(summary(about, rows), encoding="utf-8")
    print(summary(about, rows))


if __name__ == "__main__":
    main()
