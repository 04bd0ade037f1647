"""Write every backward yourself:  python -m lessons.yours   (from the repository's root)

Makes a folder `yours` with one file for each layer: its forward, and a backward without a body.
Nothing that you have written is ever overwritten; delete a file to get a new one.

    python -m lessons.yours                    what there is to write, and how far you are
    python -m lessons.yours check [NAME ...]   judges what you have written, on numbers drawn anew;
                                               --seed N repeats them; --json for a grader;
                                               exit code 1: something is not right
    python -m lessons.yours why NAME           the answer to what it asks when you are right
    python -m lessons.yours hint NAME          the next of three hints
    python -m lessons.yours train [OPTIONS]    trains on those that are right, next to the
                                               project's; options as of convsim_mini.train
"""

import json
import secrets
import sys
from contextlib import redirect_stdout
from pathlib import Path
from textwrap import fill

from convsim_mini.common.cli import (
    UserError, did_you_mean, errors_in_one_line, python_m, user_errors)
from convsim_mini.common.files import write_text
from convsim_mini.common.lines import read_object
from convsim_mini.common.show import table

from .exercises import EXERCISES, WHOLE
from .judge import NOT_YET, RIGHT, STOPPED, WRONG, judge, written
from .page import page

FOLDER = Path("yours")
PROGRESS = FOLDER / "progress.json"


def make_pages():
    """Write the pages that are not there; → the reader's progress: states and hints by name."""
    with user_errors(f"{FOLDER}: cannot be written", "choose another folder to work in"):
        FOLDER.mkdir(exist_ok=True)
    for name in EXERCISES:
        if not path_of(name).exists():
            write_text(path_of(name), page(name))
        elif not path_of(name).is_file():                     # it would be waited for
            raise UserError(f"{path_of(name)}: is not a file; work in another folder")
    if not PROGRESS.exists():
        return {"states": {}, "hints": {}}
    kept = read_object(PROGRESS, "cannot be read", "delete it: only hints and verdicts are lost")
    if kept.keys() - {"states", "hints"} or not all(isinstance(of, dict) for of in kept.values()):
        raise UserError(f"{PROGRESS}: is not what this command wrote; work in another folder")
    return {key: dict(kept.get(key, {})) for key in ("states", "hints")}


def path_of(name):
    """The reader's file for a backward."""
    return FOLDER / f"{name}.py"


def save(kept):
    """Keep the progress."""
    write_text(PROGRESS, json.dumps(kept, indent=2) + "\n")


def show(kept):
    """The table of what there is to write, in its order."""
    rows = [[name, kept["states"].get(name, NOT_YET), f"{kept['hints'].get(name, 0)} of 3",
             str(path_of(name))] for name in EXERCISES]
    print(table(["to write, easy to hard", "at your last check", "hints", "file"], rows))
    left = [name for name, state, *_ in rows if state != RIGHT]
    print(f"\nNext: {path_of(left[0])}, then  {python_m(f'lessons.yours check {left[0]}')}" if left
          else f"\nAll right. Now train on them:  {python_m('lessons.yours train')}")


def check(kept, names, seed=None, as_json=False):
    """Judge these backwards, or all; print and keep the verdicts; → the names of those right.

    seed: of the cases' numbers; None: drawn. as_json: print what Gradescope reads as results.json
    """
    seed, tests = secrets.randbelow(10**6) if seed is None else seed, []
    for name in names or EXERCISES:
        with redirect_stdout(sys.stderr if as_json else sys.stdout):    # what a page prints
            state, lines = judge(name, path_of(name), seed)
        kept["states"][name] = state
        if state == RIGHT:
            lines = [*lines, f"{EXERCISES[name].why[0]}  Write it down, then compare:  "
                     + python_m(f"lessons.yours why {name}")]
        tests.append({"name": name, "score": int(state == RIGHT), "max_score": 1,
                      "output": "\n".join([state, *lines])})
        if not as_json:
            print(f"{name:14} {state}", *lines, sep="\n    ")
    print(json.dumps({"output": f"--seed {seed}", "tests": tests}, indent=2) if as_json
          else f"(--seed {seed} repeats these numbers)")
    save(kept)
    return [test["name"] for test in tests if test["score"]]


def hint(kept, names):
    """Print the next hint of each of these, or the last one again."""
    for name in names:
        number = kept["hints"][name] = min(3, kept["hints"].get(name, 0) + 1)
        print(fill(f"{name}, hint {number} of 3: {EXERCISES[name].hints[number - 1]}", 100))
    save(kept)


def why(names):
    """Print the question that a right backward is followed by, and its answer."""
    for name in names:
        print(fill(f"{name}: {' '.join(EXERCISES[name].why)}", 100))


def options_of(rest):
    """Names, the seed or None and whether JSON is wanted, of the words behind `check`."""
    rest, seed, as_json = [*rest], None, "--json" in rest
    if "--seed" in rest:
        at = rest.index("--seed")
        if not rest[at + 1:] or not rest[at + 1].isdecimal():
            raise UserError("--seed: expected a number behind it, such as --seed 7")
        seed, rest[at:at + 2] = int(rest[at + 1]), []
    return known([word for word in rest if word != "--json"]), seed, as_json


def known(names):
    """The names themselves. Raises UserError for one that is not an exercise."""
    for name in names:
        if name not in EXERCISES:
            raise UserError(f"{name}: is none of {', '.join(EXERCISES)}"
                            + did_you_mean(name, EXERCISES))
    return names


@errors_in_one_line()
def main(argv=None):
    """The command."""
    what, *rest = (sys.argv[1:] if argv is None else argv) or ["show"]
    if what in ("-h", "--help"):
        print(__doc__)
    elif what == "show" and not rest:
        show(make_pages())
    elif what == "check":
        (names, seed, as_json), kept = options_of(rest), make_pages()
        check(kept, names, seed, as_json)
        judged = {kept["states"][name] for name in names or EXERCISES}
        if judged & {WRONG, STOPPED} and not as_json:         # a grader reads the JSON
            sys.exit(1)
    elif what == "why" and rest:
        why(known(rest))
    elif what == "hint" and rest:
        names = known(rest)
        hint(make_pages(), names)
    elif what == "train":
        from .training import train    # loads the parser of options and matplotlib
        right = check(make_pages(), [])
        print(train({name: written(name, path_of(name)) for name in right if name != WHOLE}, rest,
                    FOLDER / "curve.png"))
    else:
        raise UserError(f"{what}: expected check, hint NAME, why NAME, train, or nothing; see "
                        "--help")


if __name__ == "__main__":
    main()
