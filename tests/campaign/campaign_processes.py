"""Faults from outside: signals, full disks, a second process."""

import os
import shutil
import subprocess
import time
from contextlib import suppress
from itertools import product
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM

from convsim_mini.training.run import LOG, MODEL, finished, load_run, read_log

from campaign_ground import (
    ACTIONS, CLOSED, NotRun, check_end, check_left, check_same, digest, expect, last, put_own, told)

FIRST = [name for name in ACTIONS if name != "workers" and not name.endswith(" 2")]
STOPPED = {SIGKILL: (-9,), SIGTERM: (143, -15), SIGINT: (130, -2)}
TARGETS = {SIGKILL: ("it", "it", "a child"), SIGTERM: ("it", "all"), SIGINT: ("all",)}


def kills(ground, rng):
    """Up to three signals at random moments of one command; then it is run to its end."""
    kill(ground, rng, rng.choice(FIRST))


def workers(ground, rng):
    """The same of a training of two workers; of mpiexec all codes are right."""
    kill(ground, rng, "workers")


def kill(ground, rng, name):
    """What `kills` says, of this command."""
    if name not in ground.expected:
        raise NotRun("no mpiexec")
    killed = name == "workers"    # mpiexec kills some when one ends
    with ground.folder(ACTIONS[name].before) as folder, told(name) as story:
        for _ in range(rng.randint(1, 3)):
            number = rng.choice(list(STOPPED))
            killed |= number == SIGKILL
            # one worker that is interrupted before MPI has started leaves the other waiting
            whom = rng.choice(TARGETS[number]) if name != "workers" else (
                "a child" if number == SIGKILL else "it")
            after = rng.uniform(0.05, 1.6) * ground.seconds[name]    # two lanes take their time
            story.append(f"{number.name} to {whom} after {after:.2f} s")
            words, code = again(name, folder)
            is_new = not read_log(folder / "run" / LOG)
            process = ground.start(words, folder)
            time.sleep(after)
            children = [n for n in process.alive() if n != process.process.pid and is_python(n)]
            if whom != "a child":
                process.signal(number, whom == "all")
            elif children:
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(children), number)
            done = process.wait(ground.patience)
            # mpiexec's code may be 2, the number of the signal that ended a worker
            check_end(done._replace(returncode=0) if name == "workers" else done,
                      (0, 2) if whom == "a child" else (0, code, *STOPPED[number]))
            if is_new and ".train" in words and done.returncode in (130, 143):
                check_stopped(folder / "run", done)
            check_whole(ground, name, folder, killed)
        go_on(ground, name, folder, story, killed)


def is_python(number):
    """Whether this process runs Python, and does not start workers."""
    with suppress(OSError):
        return b"python" in Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")[0]
    return False


def check_stopped(run, done):
    """A training that has been asked to stop has saved a checkpoint and says how to go on."""
    if any("loss" in record for record in read_log(run / LOG)) and not finished(run):
        expect("resume with" in done.stderr, f"stopped, it does not say how to go on: {last(done)}")
        expect((run / MODEL).exists(), "stopped, it has saved no checkpoint")


def again(name, folder):
    """The words that go on after a stop, and their exit code: 2 where an end must not be undone."""
    made = folder / ACTIONS[name].makes
    if any(made.glob("*.safetensors")) and made.name == "run" and ".train" in ACTIONS[name].words:
        return ("mpiexec " * (name == "workers")) + ACTIONS["resume"].words, 0
    return ACTIONS[name].words, 2 if made.name in ("index", "exported") and made.exists() else 0


def check_whole(ground, name, folder, killed=False):
    """After a stop what stands under a final name is whole; so are the user's own files."""
    check_left(folder, killed)
    made, expected = folder / ACTIONS[name].makes, ground.expected[name]
    found = digest(made)
    for path in made.glob("*.png"):
        expect(path.read_bytes().endswith(b"IEND\xaeB`\x82"), f"{path.name} is cut")
    if made.name == "run":
        if (made / MODEL).exists():
            load_run(made)
        bad = [key for key, value in found.items() if "damaged" in str(value)]
        expect(not bad, f"after the stop: {', '.join(bad)} damaged")
    elif made.name == "report":                               # each of its files
        check_same(found, {key: expected.get(key) for key in found}, "after the stop")
    elif found and made.name != "reddit":
        check_same(found, expected, "after the stop")


def go_on(ground, name, folder, story, killed=False):
    """Run it to its end: the result is the undisturbed one, and nothing is left lying about."""
    story.append("run again")
    words, code = again(name, folder)
    ground.run(words, folder, (code,))
    check_same(digest(folder / ACTIONS[name].makes), ground.expected[name], "at last")
    check_left(folder, killed)


def disks(ground, rng):
    """A command in a folder on a disk that is too small; then there is room."""
    name = rng.choice(FIRST)
    before, free = ACTIONS[name].before, int(10 ** rng.uniform(0.7, 4))
    with ground.folder() as outside, told(name, f"{free} kB free") as story:
        (folder := outside / "disk").mkdir()
        run = ground.root / before
        needed = 12 + sum(4 + p.stat().st_size // 1024 for p in run.iterdir()) * bool(before)
        mount = ["mount", "-t", "tmpfs", "x", folder, "-o"]
        if subprocess.run([*mount, f"size={needed + free}k"], capture_output=True).returncode:
            raise NotRun("no mount")
        try:
            if before:
                shutil.copytree(run, folder / "run")
            put_own(folder)
            ground.run(ACTIONS[name].words, folder, (0, 2))
            check_whole(ground, name, folder)
            subprocess.run([*mount, "remount,size=256m"], check=True)
            go_on(ground, name, folder, story)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def closed(ground, rng):
    """A command without standard input and error does all that it does with them."""
    name = rng.choice(FIRST)
    with ground.folder(ACTIONS[name].before) as folder, told(name):
        ground.run(ACTIONS[name].words, folder, launcher=CLOSED)
        check_same(digest(folder / ACTIONS[name].makes), ground.expected[name], "closed")
        check_left(folder)


READERS = {    # of a run, or an index, while it is made
    "read by sts": "convsim_mini.evaluation.sts run",
    "read by encode": "convsim_mini.encode run --file {root}/lines.txt --out v.npy",
    "read by report": "convsim_mini.evaluation run --out report",
    "read by export": "convsim_mini.export run --out exported",
    "searched": "convsim_mini.encode {root}/whole hello --index index"}
RIVALS = [("train", "train 2"), ("resume", "resume"), ("encode", "encode 2"), ("index", "index 2"),
          ("export", "export"), ("report", "report"), ("reddit", "reddit"), ("tune", "tune"),
          ("evaluation", "evaluation")]    # the first need not come to its end
PAIRS = [*RIVALS, *RIVALS, ("train", "resume"), ("fresh cache", "fresh cache 2"),
         ("index", "searched"), *product(("train", "resume"), list(READERS)[:-1])]


def two_at_once(ground, rng):
    """Two commands that share a folder: each result is the whole result of one of them."""
    names = rng.choice(PAIRS)
    after = rng.choice((0, rng.uniform(0, 0.3), rng.uniform(0, 2))) * ground.seconds["encode"]
    before = ACTIONS[names[0]].before
    with ground.folder(before) as folder, told(*names, f"the second {after:.2f} s later"):
        commands = []
        for name in names:
            words = READERS[name] if name in READERS else ACTIONS[name].words
            commands.append(ground.start(words, folder))
            time.sleep(after if name is names[0] else 0)
        ends = [command.wait(ground.patience) for command in commands]
        for name, done in zip(names, ends):
            check_end(done, what=name)
        good = [name for name, done in zip(names, ends) if done.returncode == 0]
        expect(good, f"neither came to its end: {last(ends[0])}; {last(ends[1])}")
        expect(names in RIVALS or ends[0].returncode == 0, f"disturbed: {last(ends[0])}")
        expect(len(good) == 1 or names[1] not in ("train 2", "index 2"), "both made it")
        for name in set(good) - READERS.keys():
            makes = ACTIONS[name].makes
            allowed = [ground.expected[names[0] if other == "resume" else other] for other in good
                       if other in ACTIONS and ACTIONS[other].makes == makes]
            expect(digest(folder / makes) in allowed, f"not the whole result of {name}")
        check_left(folder)
