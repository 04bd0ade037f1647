"""Options with random values, in every command."""

import os
import re
import resource
import runpy
import signal
import sys
import time
import traceback
from contextlib import suppress
from functools import cache

import convsim_mini.report.__main__    # noqa: F401  (a fork has it already)
from convsim_mini import COMMANDS

from campaign_ground import ACTIONS, Command, Done, check_end, environment, expect, told

SECONDS, BYTES = 6, 3 * 10**9    # until a fork is told to stop; of its addresses
WHERE = ["{root}/whole", "run", "{root}/pairs.tsv", "{root}/lines.txt", "{root}/nli", "{sts}",
         "{root}/dumps/RC_2012-01", "{root}/whole/config.json", "precious", "missing", "empty",
         "bytes", "new", "new/under/it", "/proc", "/dev/null", "/dev/zero", "/proc/self/mem", ".",
         "x" * 300, "x/" * 3000, "~", "~nobody/x", "pipe"]
NUMBERS = ["0", "-1", "1", "2", "3", "7", "64", "1000", "0.5", "-0.5", "1e-9", "1e9", "1e400",
           "nan", "inf", "-inf", "9" * 30, "2147483648", "-9223372036854775809", "1_000", "0x10",
           "٣", "1,5", "2 3"]
WORDS = ["", " ", "none", "null", "true", "false", "[]", "{{}}", "[1, 2]", "[" * 2000, "--", "-",
         "été 漢字", "\u202egro", "a\nb", "\udcff\udcfe", "\x1b[31m", "dan", "transformer", "gpu",
         "sgd", "sum", "entailment", "nli", "paper", "sts", "bf16"]
BASES = {    # module → command lines that are right, to be made wrong; others take a run alone
    "convsim_mini.train": [f"{ACTIONS['train'].words} --steps 3 --evaluations 1",
                           "convsim_mini.train --init {root}/whole --steps 3 --run run"],
    "convsim_mini.encode": ["convsim_mini.encode {root}/whole hello",
                            "convsim_mini.encode {root}/whole --file {root}/lines.txt --out w.npy"],
    "convsim_mini.tune": [ACTIONS["tune"].words],
    "convsim_mini.export": [ACTIONS["export"].words],
    "data_scripts.prepare_reddit": [ACTIONS["reddit"].words],
    "data_scripts.stats": ["data_scripts.stats missing"],
    "data_scripts.download": ["data_scripts.download stsbenchmark --data d --from empty"],
}
MODULES = [*(f"convsim_mini.{name}" for name in COMMANDS), *BASES, *["convsim_mini.train"] * 9]


@cache
def options_of(module):
    """The names of a command's options, as its help lists them."""
    more = "--help-all" if module == "convsim_mini.train" else "--help"
    done = Command([module, more], "/tmp").wait()
    assert done.code == 0, done.stderr
    return sorted({*re.findall(r"(?<![\w-])--[a-z_.]+", done.stdout)} - {"--help", "--help-all"})


def value(ground, rng):
    """A value for an option, of whatever kind."""
    return rng.choice(rng.choice((WHERE, NUMBERS, NUMBERS, WORDS))).format(**ground.names())


def command_line(ground, rng):
    """A module and its arguments, some of them random."""
    module = rng.choice(MODULES)
    words = rng.choice(BASES.get(module, [f"{module} {{root}}/whole"]))
    argv = words.format(**ground.names()).split()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.1:
            argv[rng.randrange(1, len(argv))] = value(ground, rng)
        else:
            argv += [rng.choice(options_of(module) or ["--x"]),
                     *(value(ground, rng) for _ in range(rng.choice((0, 1, 1, 1, 1, 2))))]
    return argv


def options(ground, rng):
    """A command with random options: done, or one line of error; if it is long, it can be ended."""
    argv = command_line(ground, rng)
    with ground.folder(f"options {rng.random()}", "whole") as folder, (
            told(" ".join(ascii(word[:60]) for word in argv))):
        (folder / "empty").touch()
        (folder / "bytes").write_bytes(rng.randbytes(3_000))
        os.mkfifo(folder / "pipe")
        done, stopped = fork(argv, folder)
        check_end(done, (143, -signal.SIGTERM) if stopped else (0, 2))


def fork(argv, folder):
    """Run a module as a command in a fork of this process; → Done, whether it was told to stop.

    After SECONDS it is told to stop. Raises Defect if then it does not end, or a child of it.
    """
    streams = [open(f"{folder}.{name}", "w+b") for name in ("out", "err")]
    if (number := os.fork()) == 0:
        _become(argv, folder, streams)
    begin, stopped = time.monotonic(), False
    while not (ended := os.waitpid(number, os.WNOHANG))[0]:
        seconds = time.monotonic() - begin
        if seconds > SECONDS and not stopped:
            os.kill(number, signal.SIGTERM)
            stopped = True
        if seconds > SECONDS + 20:
            os.killpg(number, signal.SIGKILL)
        time.sleep(0.01)
    _wait_for_group(number)
    texts = []
    for stream in streams:
        stream.seek(0)
        texts.append(stream.read().decode(errors="replace"))
        stream.close()
        os.unlink(stream.name)
    expect(not stopped or os.waitstatus_to_exitcode(ended[1]) != -signal.SIGKILL,
           f"does not end after SIGTERM: {texts[1][-200:]!r}")
    return Done(os.waitstatus_to_exitcode(ended[1]), *texts), stopped


def _wait_for_group(number):
    """Until the children of a fork have ended, too."""
    with suppress(ProcessLookupError):
        for _ in range(200):
            os.killpg(number, 0)
            time.sleep(0.05)
        os.killpg(number, signal.SIGKILL)
        expect(False, "its processes live on after its end")


def _become(argv, folder, streams):
    """What the fork does; it never returns."""
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
        os.environ |= environment(HOME=str(folder), NO_PROXY="", **nowhere)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for descriptor, stream in enumerate(streams, start=1):
            os.dup2(stream.fileno(), descriptor)
        sys.stdin, sys.stdout, sys.stderr = map(open, (0, 1, 2), "rww")
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = argv
        sys.modules.pop(argv[0], None)
        runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(bool(error.code))
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
