"""Faults in files: a run's that were changed, a cache's that are damaged, bombs."""

import bz2
import io
import json
import os
import shutil
import signal
import tarfile
import time
import zipfile
import zlib
from contextlib import redirect_stderr, redirect_stdout
from functools import cache as once

import zstandard

from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.config import flat
from convsim_mini.data.prepare import load_corpus
from convsim_mini.evaluation import sts
from convsim_mini.training.run import load_config, load_run, log_of
from convsim_mini.inference.sentence_encoder import load
from convsim_mini.training import monitor

from bombs import LIMITED, PIECE, line_bombs, one_stream, tar_bomb
from campaign_ground import (
    ACTIONS, PLACES, TRAIN, Command, check_end, check_left, check_same, digest, expect, last, told,
)

TEXTS = ["fudazi vobamu setodi", "tufome", "what is this?", ""]
MAY_DIFFER = (*PLACES, "device", "optim.chunk")


def damage(data, rng):
    """Flip, zero, cut or insert bytes somewhere; → the data, what was done."""
    at = rng.randrange(min(len(data), rng.choice((8, 2048, len(data)))))    # headers more often
    size = rng.choice((1, 1, 4, 64, 4096))
    how = rng.choice(("flip", "zero", "cut", "insert", "shorten"))
    inside = data[at:at + size]
    new = {"flip": bytes(byte ^ 1 << rng.randrange(8) for byte in inside),
           "zero": bytes(len(inside)), "cut": b"", "insert": inside + rng.randbytes(size),
           "shorten": b""}[how]
    end = b"" if how == "shorten" else data[at + size:]
    return data[:at] + new + end, f"{how} {len(inside)} bytes at {at:,}"


def edit_setting(data, rng):
    """Another value for one setting of a config.json."""
    values = json.loads(data)
    name = rng.choice([name for name in flat(values) if name not in MAY_DIFFER])
    *groups, key = name.split(".")
    inner = values[groups[0]] if groups else values
    old = inner[key]
    choices = [not old] if isinstance(old, bool) else [old + 1, old * 2, 0] if isinstance(
        old, (int, float)) else [*map(str, (0, "nli", "sum", "none", "sgd", "fp32")), None, [7], 3]
    inner[key] = rng.choice([choice for choice in choices if choice != old])
    return json.dumps(values).encode(), f"{name} {old} → {inner[key]}"


def spoil(path, rng, kinds=(damage, damage, damage, damage, damage, None)):
    """Change a file in one of these ways, None: delete it; → what was done."""
    old = path.read_bytes()
    while True:                                               # until it is another
        if not (kind := rng.choice(kinds)):
            path.unlink()
            return f"{path.name} deleted"
        data, what = kind(old, rng)
        if data != old:
            path.write_bytes(data)
            return f"{path.name}: {what}"


def tamper(folder, other, rng, unread):
    """Change a file of a run, or put one of another run in its place; → what was done."""
    path = rng.choice(sorted(p for p in folder.iterdir() if p.suffix not in (".png", ".tmp")
                             and not p.name.startswith(unread)))
    kinds = [damage, damage]
    if path.name != "all_but_the_top.safetensors":            # then `encode` goes on without it
        kinds.append(None)
    if (other / path.name).exists():
        kinds.append(lambda *_: ((other / path.name).read_bytes(), "of another seed's run"))
    if path.name == "config.json":
        kinds += [edit_setting] * 4
    return spoil(path, rng, kinds)


def used(folder):
    """What a run gives to those who load it: vectors, plain and tuned, cosines; and its log."""
    vectors = [load(folder, tuned=tuned).encode(TEXTS).tobytes() for tuned in (False, True)]
    run = load_run(folder)
    scores = sts.scores(run, sts.read(sts.OWN))
    return [*vectors, *(values.tobytes() for values in scores.values())], log_of(run)


def resumed(folder):
    """What a run that goes on ends with, but for its log and what it does not read."""
    monitor.plot_loss = monitor.plot_precision = monitor.plot_accuracy = lambda *_: None    # slow
    train.resume(folder)
    for name in ("tuned.safetensors", "log.jsonl"):
        (folder / name).unlink(missing_ok=True)
    return digest(folder), []


def tampering(ground, rng):
    """A file of a run is changed; it is refused in one line, or the result has the same bytes."""
    name = "half" if rng.random() < 0.15 else "whole"
    action, other, unread = USES[name]
    with ground.folder(name) as folder:
        what = tamper(folder / "run", ground.root / other, rng, unread)
        with told(f"{action.__name__} after {what}"):
            value, log = untouched(ground, name)
            try:
                found, part = quietly(action, folder / "run")
            except UserError as error:
                expect("\n" not in str(error), f"an error of several lines: {error}")
            except Exception as error:
                expect(False, f"{type(error).__name__}: {error}")
            else:                                             # a log may lack its end, as if killed
                expect(found == value and part == log[:len(part)], "another result, without a word")


def quietly(function, *arguments):
    """The function's value; nothing is shown."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return function(*arguments)


@once
def untouched(ground, name):
    """The result of a run that nobody changed."""
    with ground.folder(name) as folder:
        return quietly(USES[name][0], folder / "run")


USES = {    # run → how it is used, one of another seed, what is not read
    "half": (resumed, "half2", "tuned"), "whole": (used, "other", "resume-")}


def cache(ground, rng):
    """A file of a prepared corpus is damaged; the next start says so, and prepares it again."""
    with ground.folder() as folder:
        place = shutil.copytree(ground.root / "cache", folder / "cache")
        files = [path for path in sorted(place.rglob("*")) if path.is_file()]
        (cache_in_use if rng.random() < 0.25 else cache_at_rest)(ground, rng, folder, files)
        check_left(folder)


def cache_at_rest(ground, rng, folder, files):
    """Between two commands."""
    whole = digest(folder / "cache")
    with told(spoil(rng.choice(files), rng)):
        if digest(folder / "cache") == whole:                 # a space in JSON
            return
        config, errors = load_config(ground.root / "whole"), io.StringIO()
        with redirect_stderr(errors):
            load_corpus(config.pairs, config.text, folder / "cache")
        shown = errors.getvalue().strip().splitlines()
        expect(len(shown) == 1 and "damaged" in shown[0], f"it says {shown}")
        check_same(digest(folder / "cache"), whole, "prepared again")


def cache_in_use(ground, rng, folder, files):
    """A file is cut while a training has it mapped: it may end with an error of Python, as PROMISES
    says, or die; the next start puts it right.
    """
    process, until = ground.start(f"{TRAIN} --cache cache", folder), time.monotonic() + 30
    while not (folder / "run" / "log.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.02)
    path = rng.choice([path for path in files if path.suffix != ".json"])
    os.truncate(path, rng.choice((0, path.stat().st_size // 2)))
    with told(f"{path.name} cut while in use"):
        ended = process.wait().returncode
        expect(ended in (0, 1, 2, -signal.SIGBUS), f"exit code {ended}")
        done = ground.start(ACTIONS["resume"].words, folder).wait()
        check_end(done, (0,), "resumed: ")
        expect("damaged" in done.stderr, f"resumed, it says {last(done)}")
        check_same(digest(folder / "run"), ground.expected["train"], "resumed")


def wide_window():
    """A zstd frame that asks for a window of 2 GiB."""
    parameters = zstandard.ZstdCompressionParameters(window_log=31, write_content_size=False)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(b"a\tb\n" * 9)


def zip_bomb():
    """A zip whose one member expands to 2 GB."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("sts-train.csv", "w", force_zip64=True) as member:
            for _ in range(128):
                member.write(PIECE)
    return file.getvalue()


BOMBS = {    # name → what makes its bytes
    **{f"lines{end}": lambda end=end: line_bombs()[end] for end in (".gz", ".xz", ".zst")},
    "streams.zst": lambda: zstandard.compress(PIECE) * 128,
    "stream.gz": lambda: one_stream(zlib.compressobj(wbits=31)),
    "stream.bz2": lambda: one_stream(bz2.BZ2Compressor()),
    "window.zst": wide_window, "deep.json": lambda: b'{"input":' + b"[" * 10**6,
    "line.txt": lambda: bytes(1 << 28), "record.tar": lambda: tar_bomb(tarfile.XHDTYPE),
    "name.tar": lambda: tar_bomb(tarfile.GNUTYPE_LONGNAME),
    "link.tar": lambda: tar_bomb(tarfile.GNUTYPE_LONGLINK), "file.zip": zip_bomb}


bytes_of = once(lambda bomb: BOMBS[bomb]())
TEXT = ["lines.gz", "stream.gz", "lines.zst", "streams.zst", "window.zst", "line.txt"]
PACKED = ["lines.xz", "stream.bz2", *TEXT[:-1]]    # told by their first bytes
EATERS = {    # the names that its file may have, what it is to eat, the command
    "pairs": (["pairs.tsv", "pairs.csv", "pairs.jsonl"], [*TEXT, "deep.json"],
              "convsim_mini.train --cache c --run new --pairs FILE"),
    "file": (["lines.txt"], TEXT, "convsim_mini.encode {root}/whole --out w.npy --file FILE"),
    "search": (["lines.txt"], TEXT, "convsim_mini.encode {root}/whole hello --search FILE"),
    "vectors": (["v.txt"], TEXT, "convsim_mini.evaluation.sts {root}/whole --vectors FILE"),
    "nli": (["nli/snli_1.0_train.jsonl"], ["line.txt", "deep.json"],
            "convsim_mini.train --task multitask --init {root}/whole --nli nli --cache c --run n"),
    "reddit": (["RC_2012-01"], [*PACKED, "line.txt", "deep.json"],
               "data_scripts.prepare_reddit FILE --workers 1 --out reddit"),
    "unpack": (["Stsbenchmark.tar.gz"], [*PACKED, "record.tar", "name.tar", "link.tar", "file.zip"],
               "data_scripts.download stsbenchmark --data d --from FILE"),
}


def bombs(ground, rng):
    """A small file that expands to gigabytes, or nearly so, with 2 GB of addresses."""
    eater = rng.choice(list(EATERS))
    name, kind = (rng.choice(choices) for choices in EATERS[eater][:2])
    with ground.folder() as folder, told(eater, kind):
        shutil.copytree(ground.root / "nli", folder / "nli")
        if eater not in ("nli", "unpack", "reddit") and kind in TEXT[:-1]:
            name += "." + kind.rpartition(".")[2]
        (folder / name).write_bytes(bytes_of(kind))
        argv = ground.argv(EATERS[eater][2].replace("FILE", name))
        done = Command(["-c", LIMITED, *argv], folder, MALLOC_ARENA_MAX="2").wait()
        is_small = kind == "window.zst"                       # but for its window
        check_end(done, (0, 2) if is_small else (2,))
        expect(is_small or "too little memory" not in done.stderr,
               f"memory, not a limit, stopped it: {last(done)}")
        check_left(folder)
