"""Faults in what others send or hold: downloads, NLI data, other workers, indexes."""

import json
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from functools import cache as once
from pathlib import Path

from convsim_mini.common.cli import UserError
from convsim_mini.inference.index import Index
from convsim_mini.inference.sentence_encoder import load

from campaign_damage import TEXTS, quietly, resumed, spoil
from campaign_ground import (
    ACTIONS, HALF, KEPT, TRAIN, Command, NotRun, check_end, check_left, check_same, digest, expect,
    last, no_traceback, told,
)
from campaign_processes import STOPPED, check_stopped
from loopback import Answer, Loopback

# The command with one more set, of one file, from the address that it is told.
DOWNLOAD = """
import sys
from convsim_mini.common.cli import errors_in_one_line
from data_scripts import download, fetch
from data_scripts.registry import Archive, DataSet, File, Source
fetch.wait = lambda seconds: None
archive = Archive((Source(sys.argv[1]),), (File("sts-dev.csv", int(sys.argv[2])),))
download.REGISTRY["tiny"] = DataSet("", "", "", "tiny", "sts", 10**7, (archive,))
with errors_in_one_line():
    download.main(["tiny"])
"""
ROWS = 20_000
WITH_NLI = (f"{KEPT} --task multitask --nli {{root}}/nli --nli_share 0.5 "
            "--optim.nli_batch_size 60 --run half_nli")
MPIEXEC = Path(sys.executable).with_name("mpiexec")
# A worker that is interrupted alone before MPI has started leaves the others waiting.
SIGNALS = [(signal.SIGKILL, "a worker"), *((number, "mpiexec") for number in STOPPED)]


def downloads(ground, rng):
    """A server drops, fails, and changes the file; the command is killed; at last all goes well."""
    server = Loopback()
    address = f"{server.address}/sts-dev.csv"
    answers = [wrong_answer(rng) for _ in range(rng.randint(2, 10))]
    with ground.folder() as folder, told("download", *(describe(a) for a in answers)) as story:
        server.answers["/sts-dev.csv"] = answers
        try:
            for _ in range(rng.randint(1, 3)):
                process = Command(["-c", DOWNLOAD, address, ROWS], folder)
                if rng.random() < 0.6:
                    number, after = rng.choice(list(STOPPED)), rng.uniform(0.2, 1.5)
                    story.append(f"{number.name} after {after:.2f} s")
                    time.sleep(after)
                    process.signal(number)
                    check_end(process.wait(), (0, 2, 128 + number, *STOPPED[number]))
                else:
                    check_end(process.wait())
                check_downloaded(folder)
            server.answers["/sts-dev.csv"] = [Answer(version(2), '"2"')]
            story.append("run again")
            done = Command(["-c", DOWNLOAD, address, ROWS], folder).wait()
        finally:
            server.close()
        check_end(done, (0,))
        check_downloaded(folder)
        left = [path.name for path in (folder / "data" / "downloads").iterdir()]
        expect(left == ["sha256.txt"], f"left in downloads: {left}")
        check_left(folder)


@once
def version(number):
    """A file of STS of so many rows, in one of two versions."""
    rows = (f"main-news\tx\t2012\t{k}\t{k * number % 6}\ta {k}\tb {number}\n" for k in range(ROWS))
    return "".join(rows).encode()


def wrong_answer(rng):
    """A server's answer that lacks something."""
    number = rng.choice((1, 2))
    answer = Answer(version(number), rng.choice((f'"{number}"', f'"{number}"', "")))
    kind = rng.choice(("cut", "cut", "cut", "status", "ranges", "piece", "length"))
    size = rng.randrange(len(answer.body))
    if kind == "status":
        return answer._replace(status=rng.choice((404, 416, 429, 500, 503)))
    if kind == "piece":
        return answer._replace(piece=size + 1, cut=size // 2)
    if kind in ("ranges", "length"):
        answer = answer._replace(**{kind: False})
    return answer._replace(cut=size)


def describe(answer):
    """An Answer in a few words."""
    kind = "".join(f" without {name}" for name in ("ranges", "length") if not getattr(answer, name))
    return f"{answer.status or answer.tag or 'no tag'} cut at {answer.cut}{kind}"


def check_downloaded(folder):
    """What stands under its final name is one version, never a mixture."""
    path = folder / "data" / "tiny" / "sts-dev.csv"
    if path.exists():
        expect(path.read_bytes() in (version(1), version(2)), "the file is of neither version")


def nli(ground, rng):
    """NLI data change while a training is stopped; it refuses them, or ends with the same bits."""
    with ground.folder(half_nli(ground)) as folder:
        shutil.copytree(ground.root / "nli", folder / "nli")
        path = rng.choice(sorted((folder / "nli").iterdir()))
        with told(f"resumed after {spoil(path, rng)}"):
            expected = resumed_with_nli(ground)
            check_refused_or_same(lambda: resume_there(folder), expected)


@once
def half_nli(ground):
    """The name of a run of two tasks that was stopped half way."""
    argv = ground.argv(WITH_NLI)
    done = Command(["-c", HALF, *argv[1:]], ground.root).wait()
    expect(done.returncode == 130, f"not stopped half way: {last(done)}")
    return "half_nli"


@once
def resumed_with_nli(ground):
    """What it ends with where nobody changed anything."""
    with ground.folder(half_nli(ground)) as folder:
        shutil.copytree(ground.root / "nli", folder / "nli")
        return resume_there(folder)


def resume_there(folder):
    """Resume the run in a folder with the NLI data there; → its digest."""
    path = folder / "run" / "config.json"
    values = json.loads(path.read_text()) | {"nli": str(folder / "nli")}
    path.write_text(json.dumps(values))
    return quietly(resumed, folder / "run")[0]


def check_refused_or_same(action, expected):
    """An action raises a UserError of one line, or gives what is expected."""
    try:
        found = action()
    except UserError as error:
        expect("\n" not in str(error), f"an error of several lines: {error}")
    except Exception as error:
        expect(False, f"{type(error).__name__}: {error}")
    else:
        expect(found == expected, "another result, without a word")


def indexes(ground, rng):
    """A file of an index is changed: it is refused in one line, or finds the same."""
    encoder = encoder_of(ground)
    whole = index_of(ground)
    with ground.folder() as folder:
        shutil.copytree(whole, folder / "index")
        with told(spoil(rng.choice(sorted((folder / "index").iterdir())), rng)):
            expected = Index(whole, encoder).search(TEXTS)
            check_refused_or_same(lambda: Index(folder / "index", encoder).search(TEXTS), expected)


@once
def encoder_of(ground):
    """The encoder that makes the index."""
    return load(ground.root / "whole")


@once
def index_of(ground):
    """A whole index."""
    done = ground.start(ACTIONS["index"].words, ground.root).wait()
    check_end(done, (0,))
    return ground.root / "index"


def workers(ground, rng):
    """One of several workers, or all, get a signal; the job then ends as if nothing had been."""
    if not MPIEXEC.exists():
        raise NotRun("no mpiexec")
    number = rng.choice((2, 3))
    expected, seconds = undisturbed(ground, number)
    with ground.folder() as folder, told(f"{number} workers") as story:
        for _ in range(rng.randint(1, 2)):
            what, whom = rng.choice(SIGNALS)
            after = rng.uniform(0.1, 1.2) * seconds
            story.append(f"{what.name} to {whom} after {after:.2f} s")
            job = start_workers(ground, number, words_for(folder), folder)
            time.sleep(after)
            one = [n for n in job.alive() if is_worker(n)]
            if whom == "mpiexec":
                job.signal(what)
            elif one:
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(one), what)
            done = job.wait()
            expect(no_traceback(done), f"a traceback: {last(done)}")
            if done.returncode in (130, 143):
                check_stopped(folder / "run", done)
            check_left(folder, stopped=True)
        story.append("run again")
        done = start_workers(ground, number, words_for(folder), folder).wait()
        check_end(done, (0,))
        check_same(digest(folder / "run"), expected, "at last")
        check_left(folder)


def words_for(folder):
    """The words that begin the training of a folder, or go on with it."""
    begun = (folder / "run" / "config.json").exists()
    return ACTIONS["resume"].words if begun else f"{TRAIN} --cache {{root}}/cache"


def is_worker(number):
    """Whether this process is a worker, and not what starts it."""
    with suppress(OSError):
        return b"convsim_mini.train" in Path(f"/proc/{number}/cmdline").read_bytes() and (
            Path(f"/proc/{number}/comm").read_text().startswith("python"))
    return False


def start_workers(ground, number, words, folder):
    """The Command of words, as several workers."""
    return Command(["-m", *ground.argv(words)], folder, launcher=[MPIEXEC, "-n", str(number)])


@once
def undisturbed(ground, number):
    """The digest of the run of so many workers that nobody disturbs, and its seconds."""
    with ground.folder() as folder:
        begin = time.monotonic()
        check_end(start_workers(ground, number, words_for(folder), folder).wait(), (0,))
        return digest(folder / "run"), time.monotonic() - begin
