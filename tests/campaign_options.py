"""Options with random values, in every command."""

import re
import signal
from functools import cache
from subprocess import TimeoutExpired

from convsim_mini import COMMANDS

from bombs import LIMITED
from campaign_ground import ACTIONS, Command, check_end, told

SECONDS = 8    # then a command is told to stop
WHERE = ["{root}/whole", "run", "{root}/pairs.tsv", "{root}/lines.txt", "{root}/nli", "{sts}",
         "{root}/dumps/RC_2012-01", "{root}/whole/config.json", "precious", "missing", "empty",
         "bytes", "new", "new/under/it", "/proc", "/dev/null", "/dev/zero", "/proc/self/mem", ".",
         "x" * 300, "x/" * 3000, "~", "~nobody/x"]
NUMBERS = ["0", "-1", "1", "2", "3", "7", "64", "1000", "0.5", "-0.5", "1e-9", "1e9", "1e400",
           "nan", "inf", "-inf", "9" * 30, "2147483648", "-9223372036854775809", "1_000", "0x10",
           "٣", "1,5", "2 3"]
WORDS = ["", " ", "none", "null", "true", "false", "[]", "{{}}", "[1, 2]", "[" * 2000, "--", "-",
         "été 漢字", "\u202egro", "a\nb", "\udcff\udcfe", "\x1b[31m", "dan", "transformer", "gpu",
         "sgd", "sum", "entailment", "nli", "paper", "sts", "bf16"]
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
def options_of(module):
    """The names of a command's options, as its help lists them."""
    more = "--help-all" if module == "convsim_mini.train" else "--help"
    done = Command(["-m", module, more], "/tmp").wait()
    return sorted({*re.findall(r"(?<![\w-])--[a-z_.]+", done.stdout)} - {"--help", "--help-all"})


def value(ground, rng):
    """A value for an option, of whatever kind."""
    return rng.choice(rng.choice((WHERE, NUMBERS, NUMBERS, WORDS))).format(**ground.names)


def options(ground, rng):
    """A command with random options: done, or one line of error; if it is long, it can be ended."""
    module = rng.choice(MODULES)
    argv = ground.argv(rng.choice(BASES.get(module, [f"{module} {{root}}/whole"])))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.1:
            argv[rng.randrange(1, len(argv))] = value(ground, rng)
        else:
            argv += [rng.choice(options_of(module) or ["--x"]),
                     *(value(ground, rng) for _ in range(rng.choice((0, 1, 1, 1, 1, 2))))]
    with ground.folder("whole") as folder, told(" ".join(ascii(word[:60]) for word in argv)):
        (folder / "empty").touch()
        (folder / "bytes").write_bytes(rng.randbytes(3_000))
        nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
        command = Command(["-c", LIMITED, *argv], folder, HOME=str(folder), NO_PROXY="", **nowhere)
        codes = (0, 2)
        try:
            command.process.wait(SECONDS)
        except TimeoutExpired:
            command.signal(signal.SIGTERM)
            codes = (143, -signal.SIGTERM, *codes)
        check_end(command.wait(20), codes)
