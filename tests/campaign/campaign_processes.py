"""Faults from outside: signals, full disks, a second process, an output that cannot be written."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from itertools import product

from convsim_mini.training.run import finished, has_checkpoint, load_run, read_log

from campaign_ground import (
    ACTIONS, TRAIN, NotRun, check_end, check_left, check_same, digest, expect, last, put_own_files,
    told,
)
from conftest import ASCII

FIRST = [name for name in ACTIONS if not name.endswith(" 2")]
TARGETS = {signal.SIGKILL: ("it", "it", "a child"), signal.SIGTERM: ("it", "all"),
           signal.SIGINT: ("all",)}
STOPPED = {signal.SIGKILL: (-9,), signal.SIGTERM: (143, -15), signal.SIGINT: (130, -2)}


def kills(ground, rng):
    """Up to three signals at random moments of one command; then it is run to its end."""
    name = rng.choice(FIRST)
    with ground.folder(ACTIONS[name].before) as folder, told(name) as story:
        for _ in range(rng.randint(1, 3)):
            number = rng.choice(list(STOPPED))
            whom = rng.choice(TARGETS[number])
            after = rng.uniform(0.05, 1.6) * ground.seconds[name]    # two lanes take their time
            story.append(f"{number.name} to {whom} after {after:.2f} s")
            words, code = again(name, folder)
            is_new = not read_log(folder / "run" / "log.jsonl")
            process = ground.start(words, folder)
            time.sleep(after)
            children = [n for n in process.alive() if n != process.process.pid]
            if whom != "a child":
                process.signal(number, whom == "all")
            elif children:
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(children), number)
            done = process.wait()
            check_end(done, (0, 2) if whom == "a child" else (0, code, *STOPPED[number]))
            if is_new and done.returncode in (130, 143) and ".train" in words:
                check_stopped(folder / "run", done)
            check_whole(ground, name, folder)
        go_on(ground, name, folder, story)


def check_stopped(run, done):
    """A training that has been asked to stop has saved a checkpoint and says how to go on."""
    if any("loss" in record for record in read_log(run / "log.jsonl")) and not finished(run):
        expect("go on with" in done.stderr, f"stopped, it does not say how to go on: {last(done)}")
        expect(has_checkpoint(run), "stopped, it has saved no checkpoint")


def again(name, folder):
    """The words that go on after a stop, and their exit code: 2 where an end must not be undone."""
    made = folder / ACTIONS[name].makes
    if (made / "config.json").exists() and made.name == "run" and "train" in ACTIONS[name].words:
        return ACTIONS["resume"].words, 0
    return ACTIONS[name].words, 2 if made.name in ("index", "exported") and made.exists() else 0


def check_whole(ground, name, folder):
    """After a stop what stands under a final name is whole; so are the user's own files."""
    check_left(folder, stopped=True)
    made, expected = folder / ACTIONS[name].makes, ground.expected[name]
    found, before = digest(made), ACTIONS[name].before
    for path in made.glob("*.png"):
        expect(path.read_bytes().endswith(b"IEND\xaeB`\x82"), f"{path.name} is cut")
    if made.name == "run":
        if made.exists() and has_checkpoint(made):
            load_run(made)
        read_log(made / "log.jsonl")                          # its last line may be cut
        standing = digest(ground.root / before) if before == "whole" else {}
        bad = [key for key, value in found.items() if key != "log.jsonl" and (
            value not in (standing.get(key), expected.get(key)) if standing else
            str(value).startswith("damaged"))]
        expect(not bad, f"after the stop: neither old nor new: {', '.join(bad)}")
    elif made.name == "report":                               # each of its files
        check_same(found, {key: expected.get(key) for key in found}, "after the stop")
    elif found and made.name != "reddit":
        check_same(found, expected, "after the stop")


def go_on(ground, name, folder, story):
    """Run it to its end: the result is the undisturbed one, and nothing is left lying about."""
    story.append("run again")
    words, code = again(name, folder)
    check_end(ground.start(words, folder).wait(), (code,))
    check_same(digest(folder / ACTIONS[name].makes), ground.expected[name], "at last")
    check_left(folder)


@contextmanager
def small_disk(folder, kilobytes):
    """A file system of so many kB in a folder; yields what makes room. Raises NotRun without."""
    folder.mkdir()

    def mount(options):
        return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "x", folder],
                              capture_output=True).returncode == 0

    if not mount(f"size={kilobytes}k"):
        raise NotRun("no mount")
    try:
        yield lambda: mount("remount,size=256m")
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def disks(ground, rng):
    """A command in a folder on a disk that is too small; then there is room."""
    name = rng.choice(FIRST)
    before, free = ACTIONS[name].before, int(10 ** rng.uniform(0.7, 4))
    with ground.folder() as outside, told(name, f"{free} kB free") as story:
        run = ground.root / before
        needed = 12 + sum(4 + p.stat().st_size // 1024 for p in run.iterdir()) * bool(before)
        with small_disk(folder := outside / "disk", needed + free) as make_room:
            if before:
                shutil.copytree(run, folder / "run")
            put_own_files(folder)
            check_end(ground.start(ACTIONS[name].words, folder).wait())
            check_whole(ground, name, folder)
            make_room()
            go_on(ground, name, folder, story)


READERS = {"evaluation": ACTIONS["evaluation"].words, "tune": ACTIONS["tune"].words,
           "encode": "convsim_mini.encode run --file {root}/lines.txt --out v.npy",
           "report": "convsim_mini.report run --out report",
           "export": "convsim_mini.export run --out exported",
           "search": "convsim_mini.encode {root}/whole hello --index index"}
WATCHED = [("index", "search"), *product(("train", "resume"), list(READERS)[:-1])]
SAME = [("train", "train 2"), ("resume", "resume"), ("train", "resume"), ("encode", "encode 2"),
        ("index", "index 2"), ("export", "export 2"), ("report", "report 2"), ("reddit", "reddit"),
        ("tune", "tune"), ("evaluation", "evaluation")]


def two_at_once(ground, rng):
    """Two commands that share a folder, at the same time."""
    rng.choice((same_output, same_output, run_and_reader, same_cache))(ground, rng)


def both(ground, rng, folder, words, story):
    """Start two commands, the second some time after the first; → how each ended."""
    first = ground.start(words[0], folder)
    time.sleep(after := rng.choice((0, rng.uniform(0, 0.5), rng.uniform(0, 3))))
    story.append(f"the second {after:.2f} s later")
    second = ground.start(words[1], folder)
    ends = [first.wait(), second.wait()]
    for which, done in zip(("first: ", "second: "), ends):
        check_end(done, what=which)
    return ends


def same_output(ground, rng):
    """Two that write to one place: the whole result of one of them stands there."""
    names = rng.choice(SAME)
    actions = [ACTIONS[name] for name in names]
    with ground.folder(actions[0].before) as folder, told(*names) as story:
        ends = both(ground, rng, folder, [action.words for action in actions], story)
        good = [name for name, done in zip(names, ends) if done.returncode == 0]
        expect(len(good) == 1 or names[1] not in ("train 2", "index 2", "export 2"),
               "both say that they made it")
        expect(good, f"neither came to its end: {last(ends[0])}; {last(ends[1])}")
        expect(names != ("train", "resume") or ends[0].returncode == 0,
               f"the first was disturbed: {last(ends[0])}")
        allowed = [ground.expected[names[0] if name == "resume" else name] for name in good]
        expect(digest(folder / actions[0].makes) in allowed,
               f"not the whole result of {' or '.join(good)}")
        check_left(folder)


def run_and_reader(ground, rng):
    """A training, and a command that reads its run."""
    name, reader = rng.choice(WATCHED)
    with ground.folder(ACTIONS[name].before) as folder, told(name, reader) as story:
        ends = both(ground, rng, folder, (ACTIONS[name].words, READERS[reader]), story)
        expect(ends[0].returncode == 0, f"the training was disturbed: {last(ends[0])}")
        expect(name != "resume" or ends[1].returncode == 0 or "all_but_the_top" in last(ends[1]),
               f"the reader found no whole run: {last(ends[1])}")
        found, expected = digest(folder / ACTIONS[name].makes), dict(ground.expected[name])
        for run in (found, expected):
            run.pop("tuned.safetensors", None)
        check_same(found, expected, "the run")
        after = READERS["search" if name == "index" else "evaluation"]
        check_end(ground.start(after, folder).wait(), (0, 2) if reader == "tune" else (0,), "then ")
        check_left(folder)


def same_cache(ground, rng):
    """Two trainings whose cache is not there yet, or is damaged."""
    kind = rng.choice(("fresh", "damaged"))
    with ground.folder() as folder, told(f"two trainings, a {kind} cache") as story:
        if kind == "damaged":
            shutil.copytree(ground.root / "cache", folder / "cache")
            path = rng.choice(sorted((folder / "cache").rglob("*.*")))
            path.write_bytes(path.read_bytes()[:-9])
        words = [f"{TRAIN}{more} --cache cache" for more in ("", "2 --seed 2")]
        ends = both(ground, rng, folder, words, story)
        for done, run, name in zip(ends, ("run", "run2"), ("train", "train 2")):
            expect(done.returncode == 0, f"{name} ended with {last(done)}")
            check_same(digest(folder / run), ground.expected[name], name)
        check_left(folder)


OUTPUTS = (">&-", "2>&-", ">&- 2>&-", ">/dev/full", "2>/dev/full", ">/dev/full 2>&1", "| head -1",
           "2>&1 | head -1", "2>&1 | true", "ascii")
HARMLESS = ("2>&-", "2>/dev/full", "ascii")


def showing(ground, rng):
    """A standard output or error that is closed, full, without a reader, or takes ASCII alone."""
    name, output = rng.choice(("train", "resume", "multitask", *FIRST)), rng.choice(OUTPUTS)
    action = ACTIONS[name]
    with ground.folder(action.before) as folder, told(name, output):
        variables, redirect = (ASCII, "") if output == "ascii" else ({}, output)
        done = ground.start(action.words, folder, redirect=redirect, **variables).wait()
        codes = (0,) if ".train" in action.words or output in HARMLESS else (0, 2, 141)
        check_end(done, codes, lines="2>" not in output)
        check_whole(ground, name, folder)
        if done.returncode == 0:
            check_same(digest(folder / action.makes), ground.expected[name], "the result")
        check_left(folder)
