"""What the faults of campaign.py share: runs and data, the commands, and what counts as whole."""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from safetensors import SafetensorError
from safetensors.numpy import load_file

from conftest import PATH, SMALL, Finished, generate_pairs
from convsim_mini.common.files import OURS
from convsim_mini.training.run import LOG, PLACES
from synthetic_dumps import write_dump

LEFT_OVER = f"{OURS}-"     # how the names of unfinished work begin
OWN = "v.npy.tmp"          # the user's own file, not left over; another one is in reddit/work
CLOSED = ["sh", "-c", 'exec "$@" <&- 2>&-', "sh"]    # starts a command as a daemon does
CONFIG, UNCOUNTED = "config.json", (LOG, ".png")    # of a run, here and in `digest`
UNREAD = "training", "config"    # files of a run that `load` does not read
MPIEXEC = Path(sys.executable).with_name("mpiexec")
HALF = """
import os, signal, sys
from convsim_mini import train
from convsim_mini.core import loop
real = loop.loss_and_gradients
def stopping(model, batch, key, weight):
    if key[1] == 24:
        os.kill(os.getpid(), signal.SIGINT)
    return real(model, batch, key, weight)
loop.loss_and_gradients = stopping
train.main(sys.argv[1:])
"""


class Defect(Exception):
    """A promise that did not hold."""


class NotRun(Exception):
    """A fault that cannot be tried on this machine, and why."""


def expect(holds, what):
    """Raise Defect unless a promise holds."""
    if not holds:
        raise Defect(what)


@contextmanager
def told(*story):
    """Put what was done, a list that may be added to, before what a Defect says."""
    story = list(story)
    try:
        yield story
    except Defect as error:
        raise Defect(f"{', '.join(story)}: {error}") from None


class Action(NamedTuple):
    """A command: its words, what it makes, and which run is copied to "run" before."""

    words: str
    makes: str
    before: str = ""


TRAIN = "convsim_mini.train {small} --pairs {root}/pairs.tsv --steps 40 --evaluations 5 --run run"
KEPT = f"{TRAIN} --cache {{root}}/cache"
ENCODE = "convsim_mini.encode {root}/whole --file {root}/lines"
ACTIONS = {
    "train": Action(KEPT, "run"), "train 2": Action(f"{KEPT} --seed 2", "run"),
    "resume": Action("convsim_mini.train --resume run", "run", "half"),
    "workers": Action(f"mpiexec {KEPT}", "run"),
    "fresh cache": Action(f"{TRAIN} --cache cache", "run"),
    "fresh cache 2": Action(f"{TRAIN}2 --seed 2 --cache cache", "run2"),
    "tune": Action("convsim_mini.tune run --data {root}", "run", "whole"),
    "evaluation": Action("convsim_mini.evaluation.sts run", "run", "whole"),
    "report": Action("convsim_mini.evaluation {root}/whole --out report", "report"),
    "encode": Action(f"{ENCODE}.txt --out v.npy", "v.npy"),
    "encode 2": Action(f"{ENCODE}2.txt --out v.npy", "v.npy"),
    "index": Action(f"{ENCODE}.txt --index index", "index"),
    "index 2": Action(f"{ENCODE}2.txt --index index", "index"),
    "export": Action("convsim_mini.export {root}/whole --out exported", "exported"),
    "reddit": Action("data_scripts.prepare_reddit {root}/dumps --out reddit --workers 2", "reddit"),
}


class Command:
    """A Python process in a group of its own."""

    started = []

    def __init__(self, argv, folder, launcher=()):
        self.mark, self.begin = secrets.token_hex(8), time.monotonic()
        self.files = [tempfile.TemporaryFile() for _ in range(2)]    # of what it prints
        environment = {**os.environ, "PYTHONPATH": PATH, "OMP_NUM_THREADS": "1",
                       "OPENBLAS_NUM_THREADS": "1", "CAMPAIGN": self.mark}
        self.process = subprocess.Popen(
            [*launcher, sys.executable, *argv], cwd=folder, env=environment, stdout=self.files[0],
            stderr=self.files[1], stdin=subprocess.DEVNULL, start_new_session=True)
        self.started.append(self)

    def signal(self, number, group=False):
        """Send it a signal, or its whole group, as Ctrl-C in a terminal does."""
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.process.pid, number)

    def wait(self, seconds=None):
        """Wait for its end; → Finished. Raises Defect if it, or a child of it, does not end."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        code, until = self.process.returncode, time.monotonic() + 20
        while (left := self.alive()) and code is not None and time.monotonic() < until:
            time.sleep(0.05)
        self.kill()
        done = Finished(code, *(os.pread(file.fileno(), 10**6, 0).decode(errors="replace")
                                for file in self.files))
        expect(code is not None, f"no end after {seconds} s: {done.stderr[-300:]!r}")
        expect(not left, f"{len(left)} of its processes live on after its end ({code})")
        return done

    def kill(self):
        """End it, and what it has started."""
        for number in self.alive():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait()

    def alive(self):
        """The numbers of its processes, but for Python's own resource tracker."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if self.mark.encode() in path.read_bytes() and (
                        b"resource_tracker" not in path.with_name("cmdline").read_bytes()):
                    found.append(int(path.parent.name))
        return found


class Ground:
    """A folder with data, a cache, a run and half a one; what each Action makes, in what time."""

    def __init__(self, root):
        self.root, self.expected, self.seconds = Path(root), {}, {}
        self.patience = None    # seconds after which a command has no end, on this machine
        self.names = {"root": self.root, "small": " ".join(SMALL)}

    def argv(self, words):
        """Words with the Ground's paths in the place of {names}."""
        return words.format(**self.names).split()

    def make(self):
        """Write the data, train the runs, do each Action once; yield each name."""
        write_data(self.root)
        module, *options = self.argv(KEPT)
        for name, start, code in (("whole", ["-m", module], 0), ("half", ["-c", HALF], 130)):
            yield name
            check_end(Command([*start, *options, "--run", name], self.root).wait(), (code,), name)
        for name, action in ACTIONS.items():
            if name == "workers" and not MPIEXEC.exists():
                continue
            yield name
            with self.folder(action.before) as folder:
                command = self.start(action.words, folder)
                check_end(command.wait(), (0,), name)
                self.seconds[name] = time.monotonic() - command.begin
                self.expected[name] = digest(folder / action.makes)
                if name == "index":
                    shutil.copytree(folder / "index", self.root / "index")
        self.patience = 60 + 20 * max(self.seconds.values())

    def start(self, words, folder, launcher=()):
        """The Command of the words; "mpiexec" before them starts two workers."""
        argv = self.argv(words)
        if argv[0] == "mpiexec":
            return Command(["-m", *argv[1:]], folder, [MPIEXEC, "-n", "2"])
        return Command(["-m", *argv], folder, launcher)

    def run(self, words, folder, codes=(0,), what="", launcher=()):
        """Run the words to their end; → Finished."""
        done = self.start(words, folder, launcher).wait(self.patience)
        check_end(done, codes, what)
        return done

    @contextmanager
    def folder(self, before=""):
        """A folder for a try, with a copy of a run and a file of the user's own."""
        folder = Path(tempfile.mkdtemp(prefix="try-", dir=self.root))
        try:
            if before:
                shutil.copytree(self.root / before, folder / "run")
            put_own(folder)
            yield folder
        finally:
            while Command.started:                            # lives on after a Defect, or Ctrl-C
                Command.started.pop().kill()
            shutil.rmtree(folder, ignore_errors=True)


def put_own(folder):
    """Write the user's own files."""
    (folder / "reddit" / "work").mkdir(parents=True)
    for place in (folder, folder / "reddit" / "work"):
        (place / OWN).write_text("own")


def write_data(root):
    """Pairs, lines, an STS file, a dump of comments."""
    pairs = generate_pairs(4_000)
    (root / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    for number, name in enumerate(("lines.txt", "lines2.txt")):
        (root / name).write_text("".join(f"{a}\n" for a, _ in pairs[number::2]) * 20)
    for name in ("dumps", "stsbenchmark"):
        (root / name).mkdir()
    for split, some in (("train", pairs[:400]), ("dev", pairs[400:800])):
        rows = [f"main-news\tx\t2012\t{k}\t{k * k % 6}\t{a}\t{b}\n"
                for k, (a, b) in enumerate(some)]
        (root / "stsbenchmark" / f"sts-{split}.csv").write_text("".join(rows))
    with open(root / "dumps" / "RC_2012-01", "wb") as file:
        write_dump(file, 12_000, 2012, 1)


def check_left(folder, killed=False):
    """The user's own file is there, unchanged; and no unfinished work, but after SIGKILL."""
    for path in (folder / OWN, folder / "reddit" / "work" / OWN):
        expect(path.exists() and path.read_text() == "own", f"the user's {path} has changed")
    known = {OWN, "cache", "index", *(action.makes for action in ACTIONS.values())}
    left = [str(path.relative_to(folder)) for path in folder.rglob("*") if
            path.name.startswith(LEFT_OVER) or path.parent == folder and path.name not in known]
    expect(killed or not left, f"left lying about: {', '.join(left)}")


def last(done):
    """A Finished command's last line on standard error."""
    return (done.stderr.strip().splitlines() or ["nothing on standard error"])[-1]


def check_end(done, codes=(0, 2), what=""):
    """A command's end: an exit code, no traceback, with 2 one line that begins "error: "."""
    # a Ctrl-C while Python loads or ends may show Python's own traceback
    loading = last(done).startswith("KeyboardInterrupt") or (
        "KeyboardInterrupt" in done.stderr and "initialization failed" in done.stderr)
    expect("Traceback" not in done.stdout + done.stderr or loading,
           f"{what}: a traceback ({done.returncode}): {done.stderr[-2_000:]}")
    expect(done.returncode in codes or loading, f"{what}: code {done.returncode}: {last(done)}")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    expect(done.returncode != 2 or errors == [last(done)] or loading or "usage: " in done.stderr,
           f"{what}: exit code 2, and not one line of error last: {done.stderr[-300:]!r}")


def digest(path):
    """Relative name → what must be the same in a file, or a folder's, but for unfinished work."""
    files = sorted(p for p in path.rglob("*") if p.is_file() and f"/{LEFT_OVER}" not in str(p)
                   and p.name != f"{OURS}.lock") if path.is_dir() else [path][:path.exists()]
    is_run = (path / CONFIG).exists()
    return {re.sub("cache/[0-9a-f]{20}", "cache", str(file.relative_to(path))): content(file)
            for file in files if file.name != OWN
            and not (is_run and file.name.endswith(UNCOUNTED))}


def content(file):
    """What must be the same in a file; of a damaged one, what is wrong with it."""
    try:
        if file.suffix == ".safetensors":
            return {name: crc32(array.tobytes()) for name, array in load_file(file).items()}
        if file.suffix == ".json":
            values = json.loads(file.read_text())
            return values if file.name != CONFIG else {
                name: values[name] for name in values if name not in PLACES}
        return crc32(file.read_bytes())
    except (ValueError, SafetensorError) as error:
        return f"damaged: {error}"


def check_same(found, expected, what):
    """Two digests are equal."""
    other = sorted(name for name in found.keys() | expected.keys()
                   if found.get(name) != expected.get(name))
    expect(not other, f"{what}: not as undisturbed: {', '.join(other)[:200]}")
