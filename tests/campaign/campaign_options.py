"""Options with random values, in every command."""

import os
import re
import resource
import runpy
import shutil
import signal
import sys
import time
from contextlib import suppress
from functools import cache

import convsim_mini.report.__main__    # noqa: F401  (a fork has it already)
from convsim_mini.__main__ import COMMANDS

from campaign_ground import (
    ACTIONS, FORK, Command, Ground, check_end, check_tidy, expect, taken, told,
)
from conftest import ROOT, Finished

SECONDS, BYTES = 8, 3 * 10**9    # then a command is told to stop; its addresses
WHERE = ["{root}/whole", "run", "{root}/pairs.tsv", "{root}/lines.txt", "{root}/nli", "{root}",
         "{root}/dumps/RC_2012-01", "{root}/whole/config.json", "precious", "missing", "empty",
         "bytes", "new", "new/under/it", "/proc/self", "/dev/null", "/dev/zero", "/proc/self/mem",
         ".", "x" * 300, "x/" * 3000, "~"]
NUMBERS = ["0", "-1", "1", "2", "3", "7", "64", "1000", "0.5", "-0.5", "1e-9", "1e9", "1e400",
           "nan", "inf", "-inf", "9" * 30, "2147483648", "-9223372036854775809", "1_000", "0x10",
           "٣", "1,5", "2 3"]
WORDS = ["", " ", "none", "null", "true", "false", "[]", "{{}}", "[1, 2]", "[" * 2000, "--", "-",
         "été 漢字", "\u202egro", "a\nb", "\udcff\udcfe", "\x1b[31m", "dan", "transformer", "gpu",
         "sgd", "sum", "entailment", "nli", "paper", "sts", "tf32"]
BASES = {    # module → command lines that are right, to be made wrong; others take a run alone
    "convsim_mini.train": [f"{ACTIONS['train'].words} --steps 3 --evaluations 1",
                           "convsim_mini.train --init {root}/whole --steps 3 --run run2"],
    "convsim_mini.encode": ["convsim_mini.encode {root}/whole hello", ACTIONS["encode"].words],
    "convsim_mini.tune": [ACTIONS["tune"].words],
    "convsim_mini.export": [ACTIONS["export"].words],
    "data_scripts.prepare_reddit": [ACTIONS["reddit"].words],
    "data_scripts.stats": ["data_scripts.stats missing"],
    "data_scripts.download": ["data_scripts.download stsbenchmark --data d --from empty"],
}
MODULES = [*(f"convsim_mini.{name}" for name in COMMANDS), *BASES, *["convsim_mini.train"] * 9]


@cache
def options_of(module, folder):
    """The names of a command's options, as its help lists them."""
    more = "--help-all" if module == "convsim_mini.train" else "--help"
    done = Command(["-m", module, more], folder).wait()
    check_end(done, (0,), f"{module} {more}: ")
    return sorted({*re.findall(r"(?<![\w-])--[a-z_.]+", done.stdout)} - {"--help", "--help-all"})


def value(ground, rng):
    """A value for an option, of whatever kind."""
    return rng.choice(rng.choice((WHERE, NUMBERS, NUMBERS, WORDS))).format(**ground.names)


def options(ground, rng):
    """A command with random options: done, or one line of error; if it is long, it can be ended."""
    with ground.folder("whole") as folder:
        copy = Ground(folder)                                 # for --out may name what is there
        for name in ("whole", "cache", "pairs.tsv", "lines.txt", "nli", "dumps", "stsbenchmark"):
            path = ground.root / name
            (shutil.copytree if path.is_dir() else shutil.copyfile)(path, folder / name)
        for config in folder.glob("*/config.json"):           # it names the Ground's cache
            config.write_text(config.read_text().replace(str(ground.root), str(folder)))
        (folder / "empty").touch()
        (folder / "bytes").write_bytes(rng.randbytes(3_000))
        argv = command_line(copy, rng)
        with told(" ".join(ascii(word[:60]) for word in argv)):
            done, codes = forked(argv, folder)
            check_end(done, codes)
            if done.returncode in (0, 2):
                check_tidy(folder)


def command_line(ground, rng):
    """A module and its arguments, some of them random."""
    module = rng.choice(MODULES)
    argv = ground.argv(rng.choice(BASES.get(module, [f"{module} {{root}}/whole"])))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.1:
            argv[rng.randrange(1, len(argv))] = value(ground, rng)
        else:
            argv += [rng.choice(options_of(module, ground.root.parent) or ["--x"]),
                     *(value(ground, rng) for _ in range(rng.choice((0, 1, 1, 1, 1, 2))))]
    return argv


def forked(argv, folder):
    """Run a module in a fork of this process, which has imported it; → Finished, codes it may have.

    After SECONDS it is told to stop. Raises Defect where then it, or a child of it, does not end.
    """
    streams, codes = [open(f"{folder}.{name}", "w+b") for name in ("out", "err")], (0, 2)
    process = FORK.Process(target=become, args=(argv, folder, streams))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        process.terminate()
        codes = (*codes, 143, -signal.SIGTERM)
        process.join(20)
    code = process.exitcode
    with suppress(ProcessLookupError):
        for _ in range(100):                                  # until its children have ended, too
            os.killpg(process.pid, 0 if code is not None else signal.SIGKILL)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        code = None
    done = Finished(code, *map(taken, streams))
    expect(code is not None, f"it, or a child of it, does not end: {done.stderr[-200:]!r}")
    return done, codes


def become(argv, folder, streams):
    """What the fork does."""
    os.setsid()
    os.chdir(folder)
    nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    os.environ |= {"HOME": str(folder), "PYTHONPATH": str(ROOT), "NO_PROXY": "", **nowhere}
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, stream in enumerate(streams, start=1):
        os.dup2(stream.fileno(), descriptor)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    sys.argv, sys.stdin = argv, open(0)
    sys.modules.pop(argv[0], None)
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
