"""What the faults of campaign.py share: runs and data, the commands, and what counts as whole."""

import hashlib
import json
import multiprocessing
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
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError
from safetensors.numpy import load_file

from conftest import ROOT, SMALL, Finished, generate_nli, generate_pairs, write_snli
from synthetic_dumps import write_dump

LEFT_OVER = (".convsim_mini-*", "*.tmp", ".tmp*", "preparing-*")
OWN = ("v.npy.tmp", "index.tmp", "tuned.safetensors.tmp")    # the user's own files, not left over
PRECIOUS = b"the user's own\n"
PLACES = ("run", "data", "cache", "pairs", "nli", "init")
FORK = multiprocessing.get_context("fork")
PATIENCE = 180             # seconds; no command here takes ten
RUNS = {"whole": 1, "other": 2, "half": 1, "half2": 2}    # name → seed; of a half, 25 of 40 steps
HALF = """
import os, signal, sys
from convsim_mini import train
from convsim_mini.training import chunks
real = chunks.loss_and_gradients
def stopping(model, batch, key, weight):
    if key[1] == 24:
        os.kill(os.getpid(), signal.SIGINT)
    return real(model, batch, key, weight)
chunks.loss_and_gradients = stopping
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
    "multitask": Action("convsim_mini.train --task multitask --init {root}/whole --nli {root}/nli "
                        "--nli_share 0.5 --optim.nli_batch_size 60 --steps 20 --run run "
                        "--cache {root}/cache", "run"),
    "fresh cache": Action(f"{TRAIN} --cache cache", "run"),
    "tune": Action("convsim_mini.tune run --data {root}", "run", "whole"),
    "evaluation": Action("convsim_mini.evaluation.sts run", "run", "whole"),
    "report": Action("convsim_mini.report {root}/whole --out report", "report"),
    "report 2": Action("convsim_mini.report {root}/other --out report", "report"),
    "encode": Action(f"{ENCODE}.txt --out v.npy", "v.npy"),
    "encode 2": Action(f"{ENCODE}2.txt --out v.npy", "v.npy"),
    "index": Action(f"{ENCODE}.txt --index index", "index"),
    "index 2": Action(f"{ENCODE}2.txt --index index", "index"),
    "export": Action("convsim_mini.export {root}/whole --out exported", "exported"),
    "export 2": Action("convsim_mini.export {root}/other --half --out exported", "exported"),
    "reddit": Action("data_scripts.prepare_reddit {root}/dumps --out reddit --workers 2", "reddit"),
}


class Ground:
    """A folder with data, a cache and RUNS; what each Action makes undisturbed, in what time."""

    def __init__(self, root):
        self.root, self.expected, self.seconds = Path(root), {}, {}
        self.names = {"root": self.root, "small": " ".join(SMALL)}

    def argv(self, words):
        """Words with the Ground's paths in the place of {names}."""
        return words.format(**self.names).split()

    def make(self):
        """Write the data, train the runs, do each Action once; yield each name."""
        write_data(self.root)
        for name, seed in RUNS.items():
            yield name
            argv = [*self.argv(KEPT), "--run", name, "--seed", seed]
            half = ["-c", HALF, *argv[1:]]
            done = Command(half if "half" in name else ["-m", *argv], self.root).wait()
            assert done.returncode == (130 if "half" in name else 0), done.stderr
        for name in ("whole", "other"):
            done = self.start(f"convsim_mini.tune {name} --data {{root}}", self.root).wait()
            assert done.returncode == 0, done.stderr
        for name, action in ACTIONS.items():
            yield name
            with self.folder(action.before) as folder:
                begin = time.monotonic()
                done = self.start(action.words, folder).wait()
                assert done.returncode == 0, done.stderr
                self.seconds[name] = time.monotonic() - begin
                self.expected[name] = digest(folder / action.makes)

    def start(self, words, folder, **options):
        """The Command of the words."""
        return Command(["-m", *self.argv(words)], folder, **options)

    @contextmanager
    def folder(self, before=""):
        """A folder for a try, with a copy of a run and files of the user's own."""
        folder = Path(tempfile.mkdtemp(prefix="try-", dir=self.root))
        try:
            if before:
                shutil.copytree(self.root / before, folder / "run")
            put_own_files(folder)
            yield folder
        finally:
            for command in Command.started:                   # lives on after a Defect, or Ctrl-C
                if command.process.poll() is None:
                    command.signal(signal.SIGKILL, group=True)
            Command.started.clear()
            shutil.rmtree(folder, ignore_errors=True)


def write_data(root):
    """Pairs, lines, NLI and STS files, a dump of comments."""
    pairs = generate_pairs(4_000)
    (root / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    for number, name in enumerate(("lines.txt", "lines2.txt")):
        (root / name).write_text("".join(f"{a}\n" for a, _ in pairs[number::2]) * 20)
    for name in ("nli", "dumps", "stsbenchmark"):
        (root / name).mkdir()
    for seed, (split, number) in enumerate({"train": 600, "dev": 200}.items()):
        write_snli(root / "nli", split, generate_nli(pairs, number, seed))
        path = root / "stsbenchmark" / f"sts-{split}.csv"
        path.write_text("".join(f"main-news\tx\t2012\t{k}\t{k * k % 6}\t{a}\t{b}\n"
                                for k, (a, b) in enumerate(pairs[number:2 * number])))
    with open(root / "dumps" / "RC_2012-01", "wb") as file:
        write_dump(file, 12_000, 2012, 1)


def put_own_files(folder):
    """A file and links whose names end as those of temporary files may do."""
    (folder / "precious").write_bytes(PRECIOUS)
    (folder / "v.npy.tmp").write_bytes(PRECIOUS)
    (folder / "index.tmp").symlink_to("precious")
    if (folder / "run").exists():
        (folder / "run" / "tuned.safetensors.tmp").symlink_to("../precious")


def check_left(folder, stopped=False):
    """The user's own files are there, unchanged; and nothing temporary, but after a stop."""
    for name in ("precious", *OWN[:2]):
        path = folder / name
        expect(path.exists() and path.read_bytes() == PRECIOUS, f"the user's {name} has changed")
    expect((folder / "index.tmp").is_symlink(), "the user's link index.tmp is no link any more")
    if not stopped:
        check_tidy(folder)


def check_tidy(folder):
    """Nothing temporary lies about."""
    left = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.name not in OWN
            and any(fnmatch(path.name, pattern) for pattern in LEFT_OVER)]
    expect(not left, f"left lying about: {', '.join(left)}")


class Command:
    """A Python process in a group of its own; what it prints goes to files beside its folder."""

    started = []

    def __init__(self, argv, folder, redirect="", launcher=(), **variables):
        self.mark = secrets.token_hex(8)
        self.files = [open(f"{folder}.{self.mark}.{name}", "w+b") for name in ("out", "err")]
        argv = [*launcher, sys.executable, *map(str, argv)]
        if redirect:
            argv = ["bash", "-o", "pipefail", "-c", f'"$@" {redirect}', "bash", *argv]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
                       "OPENBLAS_NUM_THREADS": "1", "CAMPAIGN": self.mark, **variables}
        self.process = subprocess.Popen(argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                        start_new_session=True, stdout=self.files[0],
                                        stderr=self.files[1])
        self.started.append(self)

    def signal(self, number, group=False):
        """Send it a signal, or its whole group, as Ctrl-C in a terminal does."""
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.process.pid, number)

    def wait(self, seconds=PATIENCE):
        """Wait for its end; → Finished. Raises Defect if it, or a child of it, does not end."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        code, until = self.process.returncode, time.monotonic() + 20
        while (left := self.alive()) and code is not None and time.monotonic() < until:
            time.sleep(0.05)
        for number in left:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait()
        done = Finished(code, *map(taken, self.files))
        expect(code is not None, f"no end after {seconds} s: {done.stderr[-300:]!r}")
        expect(not left, f"{len(left)} of its processes live on after its end ({code})")
        return done

    def alive(self):
        """The numbers of the processes with its mark in their environment.

        Python's own resource tracker does not count: what it says when it is killed is Python's.
        """
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                if self.mark.encode() in path.read_bytes() and (
                        b"resource_tracker" not in path.with_name("cmdline").read_bytes()):
                    found.append(int(path.parent.name))
        return found


def taken(file):
    """The text of an open file, which is then deleted."""
    file.seek(0)
    text = file.read().decode(errors="replace")
    file.close()
    os.unlink(file.name)
    return text


def last(done):
    """A Finished command's last line on standard error."""
    return (done.stderr.strip().splitlines() or ["nothing on standard error"])[-1]


def no_traceback(done):
    """Whether a command showed no traceback, but for a Ctrl-C while Python loads or ends."""
    return ("Traceback" not in done.stdout + done.stderr or interrupted_while_loading(done)
            or last(done).startswith("KeyboardInterrupt"))


def interrupted_while_loading(done):
    """Whether a Ctrl-C met a module written in C while it was loaded; Python then ends with 1."""
    return "KeyboardInterrupt" in done.stderr and "initialization failed" in last(done)


def check_end(done, codes=(0, 2), what="", lines=True):
    """A command's end: an exit code, no traceback, with 2 one line that begins "error: "."""
    ours = [line.strip() for line in (done.stdout + done.stderr).splitlines() if str(ROOT) in line]
    expect(no_traceback(done),
           f"{what}a traceback ({done.returncode}): {last(done)} "
           f"({' '.join(ours[-1:]) or done.stderr[-2_000:]})")
    expect(done.returncode in codes or interrupted_while_loading(done),
           f"{what}exit code {done.returncode}: {last(done)}")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    expect(done.returncode != 2 or not lines or errors == [last(done)],
           f"{what}exit code 2, and not one line of error last: {done.stderr[-300:]!r}")


def digest(path):
    """Relative name → what must be the same whenever the same is made, of a folder or a file.

    Of a run: parameters and state, settings but for places, measures; no times, no pictures.
    Unfinished work does not count.
    """
    files = sorted(p for p in path.rglob("*") if p.is_file() and not p.parent.match(LEFT_OVER[0])
                   ) if path.is_dir() else [path][:path.exists()]
    is_run = (path / "config.json").exists()
    return {re.sub("cache/[0-9a-f]{20}", "cache", str(file.relative_to(path))): content(file)
            for file in files if file.name not in OWN and not (is_run and file.suffix == ".png")}


def short(data):
    """A checksum of bytes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def content(file):
    """What must be the same in a file; of a damaged one, what is wrong with it."""
    try:
        if file.suffix == ".safetensors":
            return {name: short(array.tobytes()) for name, array in load_file(file).items()}
        if file.suffix == ".json":
            values = json.loads(file.read_text())
            return {name: values[name] for name in values if name not in PLACES} if (
                file.name == "config.json") else values
        if file.name == "log.jsonl":
            names = ("step", "dev_p1", "dev_p3", "dev_p10", "best")
            return [[record.get(name) for name in names] for record in map(
                json.loads, file.read_text().splitlines()) if {"dev_p1", "best"} & record.keys()]
        return short(file.read_bytes())
    except (ValueError, SafetensorError) as error:
        return f"damaged: {error}"


def check_same(found, expected, what):
    """Two digests are equal."""
    other = sorted(name for name in found.keys() | expected.keys()
                   if found.get(name) != expected.get(name))
    expect(not other, f"{what}: not as undisturbed: {', '.join(other)[:200]}")
