"""Files of a run, an index or a cache are changed."""

import io
import shutil
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache as once

from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.data.prepare import load_corpus
from convsim_mini.inference.index import open_index
from convsim_mini import load
from convsim_mini.training import monitor
from convsim_mini.training.run import TRAINING, describe

from campaign_ground import UNCOUNTED, UNREAD, check_left, digest, expect, told

TEXTS = ["fudazi vobamu setodi", "tufome", "what is this?", ""]


def spoil(path, rng):
    """Flip, zero, cut or insert bytes of a file, cut it short, or delete it; → what was done."""
    old = new = path.read_bytes()
    if rng.random() < 0.15:
        path.unlink()
        return f"{path.name} deleted"
    while new == old:
        at = rng.randrange(min(len(old), rng.choice((8, 2048, len(old)))))    # headers more often
        size = rng.choice((1, 1, 4, 64, 4096))
        inside, rest = old[at:at + size], old[at + size:]
        how = rng.choice(("flip", "zero", "cut", "insert", "shorten"))
        new = old[:at] + {"flip": bytes(byte ^ 1 << rng.randrange(8) for byte in inside) + rest,
                          "zero": bytes(len(inside)) + rest, "cut": rest, "shorten": b"",
                          "insert": inside + rng.randbytes(size) + rest}[how]
    path.write_bytes(new)
    return f"{path.name}: {how} {len(inside)} bytes at {at:,}"


def used(folder):
    """What a run gives to those who load it."""
    return load(folder / "run").encode(TEXTS).tobytes()


def resumed(folder):
    """What a run that goes on ends with."""
    monitor.plot_curves = lambda *_: None                        # slow
    train.resume(folder / "run")
    return digest(folder / "run")


def searched(folder):
    """What is found in an index."""
    return open_index(folder / "index", load(folder / "run")).search(TEXTS)


def prepared(folder):
    """What a prepared corpus is, after the next start."""
    config = describe(folder / "run").config
    load_corpus(config.pairs, config.text, folder / "cache")
    return digest(folder / "cache")


USES = {    # what is changed → the run in the folder, where a file is changed, how it is then used
    "a run": ("whole", "run", used), "a run that goes on": ("half", "run", resumed),
    "an index": ("whole", "index", searched), "a cache": ("whole", "cache", prepared)}


def damaged(ground, rng):
    """A file is changed; it is refused in one line, or the result has the same bytes."""
    name = rng.choice(("a run", *USES))
    _, place, use = USES[name]
    with beside(ground, name) as folder:
        path = rng.choice(sorted(path for path in (folder / place).rglob("*") if path.is_file()
                                 and not (name == "a run" and path.name.startswith(UNREAD))
                                 and not path.name.endswith(UNCOUNTED)))
        with told(name, spoil(path, rng)):
            ended = path.name == TRAINING and not path.exists()    # such a run is a finished one
            expected = unchanged(ground, name)
            try:
                found = quietly(use, folder)
            except UserError as error:
                expect("\n" not in str(error), f"an error of several lines: {error}")
                expect(place != "cache", f"it is not prepared again: {error}")
            except Exception as error:
                expect(False, f"{type(error).__name__}: {error}")
            else:
                expect(ended or found == expected, "another result, without a word")
            check_left(folder)


@contextmanager
def beside(ground, name):
    """A folder with what is to be changed."""
    run, place, _ = USES[name]
    with ground.folder(run) as folder:
        if place != "run":
            shutil.copytree(ground.root / place, folder / place)
        yield folder


@once
def unchanged(ground, name):
    """What the use of files gives that nobody changed."""
    with beside(ground, name) as folder:
        return quietly(USES[name][2], folder)


def quietly(function, *arguments):
    """The function's value; nothing is shown."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return function(*arguments)
