"""Faults from outside: signals, full disks, a second process, an output that cannot be written."""

import shutil
import signal
import subprocess
import time
from contextlib import contextmanager

from convsim_mini.run import has_checkpoint, load_run

from campaign_ground import (
    ACTIONS, STOPPED, TRAIN, Action, Command, NotRun, check_end, check_left, check_no_traceback,
    check_own_files, check_same, digest, expect, put_own_files, told,
)

FIRST = ("train", "resume", "multitask", "fresh cache", "tune", "evaluation", "report", "encode",
         "index", "export", "reddit")    # the Actions that are disturbed
RESUME = ACTIONS["resume"].words


def kills(ground, rng):
    """Up to three signals at random moments of one command; then it is run to its end."""
    name = rng.choice(FIRST)
    action = ACTIONS[name]
    with ground.folder(f"kill {rng.random()}", action.before) as folder, told(name) as story:
        for _ in range(rng.randint(1, 3)):
            number = rng.choice(list(STOPPED))
            group = number == signal.SIGINT or number == signal.SIGTERM and rng.random() < 0.5
            after = rng.uniform(0.05, 1.0) * ground.seconds[name]
            story.append(f"{number.name}{' to all' * group} after {after:.2f} s")
            process = Command(again(action, folder).argv(ground), folder)
            time.sleep(after)
            process.signal(number, group)
            check_end(process.wait(), (0, *again_codes(action, folder), *STOPPED[number]))
            check_whole(folder, action, ground.expected[name])
        go_on(ground, name, folder, story)


def go_on(ground, name, folder, story):
    """Run it to its end: the result is the undisturbed one, and nothing is left lying about."""
    action = ACTIONS[name]
    story.append("run again")
    codes = again_codes(action, folder)
    check_end(Command(again(action, folder).argv(ground), folder).wait(), codes)
    check_same(digest(folder / action.makes), ground.expected[name], "at last")
    check_left(folder)


def again(action, folder):
    """The Action that goes on after a stop: `train --resume run` where a run has begun."""
    begun = (folder / "run" / "config.json").exists() and "--run run" in action.words
    return Action(RESUME, action.makes) if begun else action


def again_codes(action, folder):
    """The exit codes of a command that is run again: what was finished before is not replaced."""
    made = folder / action.makes
    return (2,) if action.makes in ("index", "exported") and made.exists() else (0,)


def check_whole(folder, action, expected):
    """After a stop: what stands under a final name is whole, and the user's own files are there."""
    check_own_files(folder)
    made = folder / action.makes
    if action.makes == "run":
        if made.exists() and has_checkpoint(made):
            load_run(made)
    elif made.exists() and action.makes not in ("reddit", "report"):
        check_same(digest(made), expected, "after the stop")
    elif made.exists() and action.makes == "report":          # file by file
        found = digest(made)
        check_same(found, {name: expected.get(name) for name in found}, "after the stop")


# ---------------------------------------------------------------- full disks

@contextmanager
def small_disk(folder, kilobytes):
    """Mount a file system of so many kB on a folder. Raises NotRun where that is not allowed.

    Yields a function that makes room.
    """
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "x", folder],
                          capture_output=True)
    if done.returncode:
        raise NotRun("no mount")
    try:
        yield lambda: subprocess.run(["mount", "-o", "remount,size=64m", folder], check=True)
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def disks(ground, rng):
    """A command in a folder on a disk that is too small; then there is room."""
    name = rng.choice([name for name in FIRST if name != "evaluation"])    # writes pictures alone
    action = ACTIONS[name]
    free = int(10 ** rng.uniform(0.7, 4))
    with ground.folder(f"disk {rng.random()}") as outside, told(name, f"{free} kB free") as story:
        run = ground.root / action.before
        needed = 12 + sum(4 + p.stat().st_size // 1024 for p in run.iterdir()) * bool(action.before)
        with small_disk(folder := outside / "disk", needed + free) as make_room:
            if action.before:
                shutil.copytree(run, folder / "run")
            put_own_files(folder)
            standing = digest(folder / "run")
            done = Command(action.argv(ground), folder).wait()
            check_end(done)
            check_whole(folder, action, ground.expected[name])
            if done.code == 2 and action.before == "whole":
                check_same(digest(folder / "run"), standing, "what existed")
            make_room()
            go_on(ground, name, folder, story)


# ---------------------------------------------------------------- two at once

READERS = {"evaluation": ACTIONS["evaluation"], "tune": ACTIONS["tune"],
           "encode": Action("convsim_mini.encode run --file {root}/lines.txt --out v.npy", "")}
SAME = [("train", "train 2"), ("resume", "resume"), ("train", "resume"), ("encode", "encode 2"),
        ("index", "index 2"), ("export", "export 2"), ("report", "report 2"), ("reddit", "reddit")]


def start_two(ground, rng, folder, actions, story):
    """Start two Actions, the second some time after the first; → how each ended."""
    first = Command(actions[0].argv(ground), folder)
    time.sleep(after := rng.choice((0, rng.uniform(0, 0.5), rng.uniform(0, 4))))
    story.append(f"the second {after:.2f} s later")
    second = Command(actions[1].argv(ground), folder, beside=".second")
    ends = [first.wait(), second.wait()]
    for which, done in zip(("first: ", "second: "), ends):
        check_end(done, what=which)
    return ends


def two_at_once(ground, rng):
    """Two commands that share a folder, at the same time."""
    rng.choice((same_output, same_output, run_and_reader, same_cache))(ground, rng)


def same_output(ground, rng):
    """Two that write to one place: one of their results stands there, whole."""
    names = rng.choice(SAME)
    actions = [ACTIONS[name] for name in names]
    with ground.folder(f"two {rng.random()}", actions[0].before) as folder, told(*names) as story:
        ends = start_two(ground, rng, folder, actions, story)
        good = [name for name, done in zip(names, ends) if done.code == 0]
        expect(good, f"neither came to its end: {ends[0].last}; {ends[1].last}")
        expect(names != ("train", "resume") or ends[0].code == 0, "the first was disturbed: "
               + ends[0].last)
        allowed = [ground.expected["train" if name == "resume" and "train" in names else name]
                   for name in good]
        found = digest(folder / actions[0].makes)
        expect(found in allowed, f"not the whole result of {' or '.join(good)}, codes "
               f"{[done.code for done in ends]}")
        check_left(folder)


def run_and_reader(ground, rng):
    """A training, and a command that reads its run."""
    name, reader = rng.choice(("train", "resume")), rng.choice(list(READERS))
    with ground.folder(f"two {rng.random()}", ACTIONS[name].before) as folder, (
            told(name, reader)) as story:
        ends = start_two(ground, rng, folder, (ACTIONS[name], READERS[reader]), story)
        expect(ends[0].code == 0, f"the training was disturbed: {ends[0].last}")
        found, expected = digest(folder / "run"), dict(ground.expected[name])
        for other in (found, expected):
            other.pop("tuned.safetensors", None)
        check_same(found, expected, "the run")
        check_end(Command(READERS["evaluation"].argv(ground), folder).wait(), what="evaluated: ")
        check_left(folder)


def same_cache(ground, rng):
    """Two trainings whose cache is not there yet, or is damaged."""
    damaged = rng.random() < 0.5
    actions = [Action(f"{TRAIN}{more} --cache cache", "") for more in ("", "2 --seed 2")]
    with ground.folder(f"two {rng.random()}") as folder, (
            told("trainings", f"a {'damaged' if damaged else 'fresh'} cache")) as story:
        if damaged:
            shutil.copytree(ground.root / "cache", folder / "cache")
            path = rng.choice(sorted((folder / "cache").rglob("*.*")))
            path.write_bytes(path.read_bytes()[:-9])
        ends = start_two(ground, rng, folder, actions, story)
        for done, run, name in zip(ends, ("run", "run2"), ("train", "train 2")):
            expect(done.code == 0, f"{name} ended with {done.code}: {done.last}")
            check_same(digest(folder / run), ground.expected[name], name)
        check_left(folder)


# ---------------------------------------------------------------- what cannot be shown

OUTPUTS = (">&-", "2>&-", ">&- 2>&-", ">/dev/full", "2>/dev/full", ">/dev/full 2>&1", "| head -1",
           "2>&1 | head -1", "2>&1 | true", "ascii")
ASCII = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}


def showing(ground, rng):
    """A standard output or error that is closed, full, without a reader, or takes ASCII alone."""
    name = rng.choice(("train", "resume", "multitask", *FIRST))
    output, action = rng.choice(OUTPUTS), ACTIONS[name]
    with ground.folder(f"show {rng.random()}", action.before) as folder, told(name, output):
        variables, redirect = (ASCII, "") if output == "ascii" else ({}, output)
        done = Command(action.argv(ground), folder, redirect=redirect, **variables).wait()
        check_no_traceback(done)
        codes = (0,) if action.makes == "run" and "train" in action.words else (0, 2, 141)
        expect(done.code in codes, f"exit code {done.code}: {done.last}")
        check_whole(folder, action, ground.expected[name])
        if done.code == 0:
            check_same(digest(folder / action.makes), ground.expected[name], "the result")
        check_left(folder)
