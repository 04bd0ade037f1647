"""What the faults of campaign.py share: a folder of runs and data, the commands, what is whole."""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError
from safetensors.numpy import load_file

from conftest import ROOT, SMALL, generate_pairs
from synthetic_dumps import write_dump
from test_nli import generate_nli, write_snli

LEFT_OVER = (".convsim_mini-*", "*.tmp", ".tmp*", "preparing-*")
STOPPED = {signal.SIGKILL: (-9,), signal.SIGTERM: (143, -15), signal.SIGINT: (130, -2)}
PRECIOUS = b"not yours\n"
PLACES = ("run", "data", "cache", "pairs", "nli", "init")
PATIENCE = 180    # seconds; no command here takes ten
HALVES, STOP_AT = ("half", "half2"), 25    # of the 40 steps


class Defect(Exception):
    """A promise that did not hold."""


class NotRun(Exception):
    """A fault that cannot be tried on this machine, and why."""


def expect(holds, told):
    """Raise Defect unless a promise holds."""
    if not holds:
        raise Defect(told)


@contextmanager
def told(*story):
    """Put what was done, a list that may be added to, before what a Defect says."""
    story = list(story)
    try:
        yield story
    except Defect as error:
        raise Defect(f"{', '.join(story)}: {error}") from None


class Action(NamedTuple):
    """A command: what is copied to stand there before, its words, what it makes."""

    words: str
    makes: str             # name of the file or folder in the working folder
    before: str = ""       # a run of the Ground, copied to "run"

    def argv(self, ground):
        """The words with the Ground's paths in the place of {names}."""
        return self.words.format(**ground.names()).split()


TRAIN = "convsim_mini.train {small} --pairs {root}/pairs.tsv --steps 40 --evaluations 8 --run run"
KEPT = f"{TRAIN} --cache {{root}}/cache"
ENCODE = "convsim_mini.encode {root}/whole --file {root}/lines"
ACTIONS = {
    "train": Action(KEPT, "run"),
    "train 2": Action(f"{KEPT} --seed 2", "run"),
    "resume": Action("convsim_mini.train --resume run", "run", "half"),
    "multitask": Action("convsim_mini.train --task multitask --init {root}/whole --nli {root}/nli "
                        "--nli_share 0.5 --optim.nli_batch_size 60 --steps 20 --run run", "run"),
    "fresh cache": Action(f"{TRAIN} --cache cache", "run"),
    "tune": Action("convsim_mini.tune run --data {sts}", "run", "whole"),
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
    """A folder with pairs, NLI and STS files, dumps, a cache and the runs whole, other and half.

    `expected` keeps what each Action makes where nothing goes wrong, and how long it takes.
    """

    def __init__(self, root):
        self.root, self.expected, self.seconds = Path(root), {}, {}

    def names(self):
        """What the words of an Action may hold."""
        sts = Path(os.environ.get("CONVSIM_DATA", self.root))
        return {"root": self.root, "small": " ".join(SMALL),
                "sts": sts if (sts / "stsbenchmark").is_dir() else self.root}

    def make(self):
        """Write the data, train the runs and make each Action's result once; yield each name."""
        pairs = generate_pairs(4_000)
        (self.root / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
        for number, name in enumerate(("lines.txt", "lines2.txt")):
            (self.root / name).write_text("".join(f"{a}\n" for a, _ in pairs[number::2]) * 20)
        for name in ("nli", "dumps", "stsbenchmark", "tries"):
            (self.root / name).mkdir()
        for seed, (split, number) in enumerate({"train": 600, "dev": 200}.items()):
            write_snli(self.root / "nli", split, generate_nli(pairs, number, seed))
            write_sts(self.root / "stsbenchmark" / f"sts-{split}.csv", pairs, seed, number)
        with open(self.root / "dumps" / "RC_2012-01", "wb") as file:
            write_dump(file, 12_000, 2012, 1)
        for name, seed in (("whole", 1), ("other", 2), ("half", 1), ("half2", 2)):
            yield name
            make_run(self, name, seed)
        for name, action in ACTIONS.items():
            yield name
            with self.folder(f"expected {name}", action.before) as folder:
                begin = time.monotonic()
                done = Command(action.argv(self), folder).wait()
                self.seconds[name] = time.monotonic() - begin
                assert done.code == 0, done.stderr
                self.expected[name] = digest(folder / action.makes)

    def folder(self, name, before=""):
        """A Folder for a try, with files of the user's own."""
        return Folder(self.root / "tries" / name.replace(" ", "-"), before and self.root / before)


def make_run(ground, name, seed):
    """A run of 40 steps, tuned; "half" and "half2" were stopped after step 25."""
    argv = [*ACTIONS["train"].argv(ground)[1:], "--run", name, "--seed", str(seed)]
    code = ("import os, signal, sys; from convsim_mini import train; from convsim_mini.training "
            "import loop; step = loop.train_step\ndef stop(c, m, o, number, *rest):\n    "
            f"if number == {STOP_AT - 1}: os.kill(os.getpid(), signal.SIGINT)\n    "
            "return step(c, m, o, number, *rest)\n"
            f"if {name in HALVES}: loop.train_step = stop\ntrain.main(sys.argv[1:])")
    done = Command(["-c", code, *argv], ground.root, module=False).wait()
    assert done.code == (130 if name in HALVES else 0), done.stderr
    words = f"convsim_mini.tune {name} --data {{sts}}"
    done = Command(Action(words, "").argv(ground), ground.root).wait()
    assert done.code == 0, done.stderr


def write_sts(path, pairs, seed, number):
    """Rows in the form of the STS Benchmark's files."""
    rng = random.Random(seed)
    rows = (f"main-news\tx\t2012\t{k}\t{5 * rng.random():.1f}\t{a}\t{b}\n"
            for k, (a, b) in enumerate(pairs[seed:seed + number]))
    path.write_text("".join(rows))


class Folder:
    """A working folder with a copy of a run, and files of the user's own, which must not change."""

    def __init__(self, path, before):
        self.path, self.before = path, before

    def __enter__(self):
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)
        if self.before:
            shutil.copytree(self.before, self.path / "run")
        put_own_files(self.path)
        return self.path

    def __exit__(self, kind, error, trace):
        if kind is not Defect:                                # it is kept to be looked at
            shutil.rmtree(self.path, ignore_errors=True)


def put_own_files(folder):
    """A file and links whose names end as those of temporary files do."""
    (folder / "precious").write_bytes(PRECIOUS)
    (folder / "v.npy.tmp").write_bytes(PRECIOUS)
    (folder / "index.tmp").symlink_to("precious")
    if (folder / "run").exists():
        (folder / "run" / "tuned.safetensors.tmp").symlink_to("../precious")


def check_own_files(folder):
    """They are as they were."""
    for path in (folder / "v.npy.tmp", folder / "index.tmp", folder / "precious"):
        expect(path.exists() and path.read_bytes() == PRECIOUS, f"the user's {path} has changed")
    expect((folder / "index.tmp").is_symlink(), "the user's link index.tmp is no link any more")


class Done(NamedTuple):
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def last(self):
        """Its last line on standard error."""
        return (self.stderr.strip().splitlines() or ["nothing on standard error"])[-1]


class Command:
    """A command in a group of processes of its own; what it prints goes to files.

    module: whether argv names a module; beside: ends the files' names; redirect: for the shell
    """

    def __init__(self, argv, folder, module=True, beside="", redirect="", **variables):
        self.mark = f"{folder}:{random.random()}"
        self.files = [open(f"{folder}{beside}.{name}", "w+b") for name in ("out", "err")]
        argv = [sys.executable, *["-m"] * module, *map(str, argv)]
        if redirect:
            argv = ["bash", "-o", "pipefail", "-c", f'"$@" {redirect}', "bash", *argv]
        self.process = subprocess.Popen(
            argv, cwd=folder, env=environment(CAMPAIGN=self.mark, **variables),
            start_new_session=True, stdin=subprocess.DEVNULL, stdout=self.files[0],
            stderr=self.files[1])

    def signal(self, number, group=False):
        """Send it a signal, or its whole group, as Ctrl-C in a terminal does."""
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.process.pid, number)

    def wait(self, seconds=PATIENCE):
        """Wait for its end; → Done. Raises Defect if it, or a child of it, does not end."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL, group=True)
            self.process.wait()
            raise Defect(f"hangs: no end after {seconds} s") from None
        until = time.monotonic() + 20
        while (left := processes(self.mark)) and time.monotonic() < until:
            time.sleep(0.05)
        for number in left:
            os.kill(number, signal.SIGKILL)
        expect(not left, f"{len(left)} of its processes live on after its end ({code})")
        texts = []
        for file in self.files:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
            os.unlink(file.name)
        return Done(code, *texts)


def environment(**more):
    """Of a command: one thread, as in CI; the repository's packages."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1", **more}


def processes(mark):
    """The numbers of the living processes with this mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def check_end(done, codes=(0, 2), what=""):
    """A command's end: one of the exit codes, no traceback, for 2 one line that begins "error:"."""
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    check_no_traceback(done, what)
    expect(done.code in codes, f"{what}exit code {done.code}: {done.last}")
    expect(done.code != 2 or len(errors) == 1 and done.last.startswith("error: "),
           f"{what}exit code 2 and not one line of error last: {done.stderr[-300:]!r}")


def check_no_traceback(done, what=""):
    """No traceback, but of a signal before any file of the repository has begun."""
    lines = [line.strip() for line in done.stderr.splitlines() if str(ROOT) in line]
    expect("Traceback" not in done.stderr or not lines and done.last == "KeyboardInterrupt",
           f"{what}a traceback ({done.code}): {done.last} ({' '.join(lines[-1:])})")


def check_left(folder):
    """Nothing temporary lies there; the user's own files do."""
    check_own_files(folder)
    own = {"v.npy.tmp", "index.tmp", "tuned.safetensors.tmp"}
    left = [path for path in folder.rglob("*") if path.name not in own
            and any(fnmatch(path.name, pattern) for pattern in LEFT_OVER)]
    expect(not left, f"left lying about: {', '.join(str(p.relative_to(folder)) for p in left)}")


def digest(path):
    """Relative name → what must be the same whenever the same thing is made, of a folder or a file.

    Of a run: parameters and state, settings but for places, measures; no times, no pictures.
    """
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [
        path][:path.exists()]
    is_run = (path / "config.json").exists()
    return {re.sub("cache/[0-9a-f]{20}", "cache", str(file.relative_to(path))): content(file)
            for file in files if not file.name.endswith(".tmp")
            and not (is_run and file.suffix == ".png")}


def content(file):
    """The content of a file, as far as it must be the same; what is wrong if it is damaged."""
    try:
        return content_of_whole(file)
    except (ValueError, SafetensorError) as error:
        return f"damaged: {error}"


def content_of_whole(file):
    if file.suffix == ".safetensors":
        return {name: hash_of(array.tobytes()) for name, array in load_file(file).items()}
    if file.name == "config.json":
        return {k: v for k, v in json.loads(file.read_text()).items() if k not in PLACES}
    if file.name == "log.jsonl":
        return [[record.get(name) for name in ("step", "dev", "best")] for record in map(
            json.loads, file.read_text().splitlines()) if {"dev", "best"} & record.keys()]
    if file.suffix == ".json":                                # its order may be the disk's
        return json.loads(file.read_text())
    return hash_of(file.read_bytes())


def hash_of(data):
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def check_same(found, expected, what):
    """Two digests are equal."""
    other = sorted(name for name in found.keys() | expected.keys()
                   if found.get(name) != expected.get(name))
    expect(not other, f"{what}: not as undisturbed: {', '.join(other)[:200]}")
