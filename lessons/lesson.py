"""What all lessons share: convsim_mini on the path, values and ranges, exercises, figures."""

import builtins
import json
import os
import re
import secrets
import sys
from pathlib import Path

if "numpy" not in sys.modules:    # BLAS reads it once; more threads only wait for one another here
    os.environ.setdefault("OMP_NUM_THREADS", "1")

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

INTERACTIVE = hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1")
if not INTERACTIVE:
    os.environ["MPLBACKEND"] = "Agg"    # a script draws to files and opens no window
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")    # "?" for what it cannot show

try:
    import matplotlib.pyplot as plt
    import numpy as np
    from convsim_mini.fast import install
except ModuleNotFoundError as error:
    print(f"error: {error.name.partition('.')[0]} is missing: {sys.executable} -m pip install -r "
          f"{HERE.parent / 'requirements.txt'}", file=sys.stderr)
    sys.exit(2)

install()    # core's functions, faster; the printed numbers stay
plt.rcParams.update({
    "figure.figsize": (8, 4.5), "figure.dpi": 120, "figure.constrained_layout.use": True,
    "font.size": 11, "axes.titlesize": 12, "axes.titlelocation": "left", "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False,
    "image.cmap": "RdBu_r"})


def ask(script):
    """Print what a lesson asks to predict, and wait once for Enter."""
    text = Path(script).read_text(encoding="utf-8")
    text = re.sub("^# (%%.*\n)?|^#", "", text, flags=re.MULTILINE)    # marks of cells go, too
    if questions := [part for part in text.split("\n\n") if "**Predict" in part]:
        print("\n\n".join(questions).replace("**", ""))
        input("\nWrite down what you expect, then press Enter. ")


if not INTERACTIVE and sys.argv[0].endswith(".py") and sys.stdin and (
        sys.stdin.isatty() and sys.stdout.isatty()):
    ask(sys.argv[0])

judges = {}    # exercise number → its judge, for solutions/prove.py
# of the cases that judges draw: another each time, or that of --seed
CASES = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv[:-1] else (
    secrets.randbelow(10**6))


def seed(number):
    """A seed of the lesson's own. `python -m lessons.claims` runs the lesson with five others."""
    return number + 1_000 * int(os.environ.get("LESSON_SEED", 0))


def claim(what, value, low=-np.inf, high=np.inf):
    """Assert what the lesson claims, as `expect` does, and tell it to `python -m lessons.claims`.

    low, high: a value outside them refutes the claim
    """
    expect(value, low, high, what)
    if "LESSON_CLAIMS" in os.environ:
        with open(os.environ["LESSON_CLAIMS"], "a", encoding="utf-8") as file:
            print(json.dumps([what, float(value), low, high]), file=file)


def expect(value, low, high, what):
    """Assert that a number lies in the range that the lesson derived for it; print it next to that.

    value: a number, or a list of errors: the largest counts. low = high: exactly that.
    A tolerance of 1e-4 or less is a check of one's own code: a tick and one short line.
    """
    most = np.max(value)
    assert low <= most <= high, f"{what}: {most} is not within {low} to {high}"
    count = f", {len(value)} checks" if isinstance(value, list) else ""
    if -high <= low <= 0 < high <= 1e-4:
        print(f"✓ {what}{count}: {abs(most):.1g} (expected below {high:.1g})")
    elif low == high:
        print(f"{what}: {most:,.12g}   (expected exactly {low:,.12g})")
    elif high - low < 1e-4 * abs(high):
        middle, half = (low + high) / 2, (high - low) / 2
        print(f"{what}: {most:,.10g}   (expected {middle:,.10g} ± {half:.0e})")
    else:
        found, low, high = (f"{x:,.0f}" if 1e4 <= abs(x) < np.inf else f"{x:.4g}"
                            for x in (most, low, high))
        ends = f"below {high}" if low == "-inf" else (
            f"above {low}" if high == "inf" else f"{low} to {high}")
        print(f"{what}: {found}   (expected {ends})")


def on_copies(answer):
    """The answer on copies of its arrays: whatever it overwrites, its judge keeps the numbers."""
    def copied(x):
        if type(x) in (tuple, list):
            return type(x)(map(copied, x))
        return x.copy() if type(x) is np.ndarray else x
    return lambda *given, **named: answer(*map(copied, given), **named)


def check(number, answer, judge):
    """Say whether an exercise is solved.

    judge(answer, rng) asserts what a right answer does, with a hint in each message. It draws its
    cases by rng, a Generator. A stub raises NotImplementedError. A wrong answer prints its hint and
    stops nothing.
    """
    judges[number] = lambda answer, rng: judge(on_copies(answer), rng)
    said, again = f"exercise {number}: ", f" (--seed {CASES} repeats these cases)"
    try:
        judges[number](answer, np.random.default_rng(CASES))
    except NotImplementedError:
        print(f"{said}not solved yet")
    except AssertionError as hint:
        print(f"{said}not right yet: {hint}{again}")
    except Exception as error:    # whatever a half-done answer runs into
        print(f"{said}fails with {type(error).__name__}: {error}{again}")
    else:
        print(f"{said}right{again}")


def show(figure, name):
    """Save a figure as lessons/figures/`name`.png; show it too in a notebook or console.

    Images lose their grid. Axes with labels get a legend, unless the figure has one for all.
    """
    for axes in figure.axes:
        if axes.images:
            axes.grid(False)
        if axes.get_legend_handles_labels()[1] and not axes.get_legend() and not figure.legends:
            axes.legend(fontsize=9)
        if axes.axison and axes.get_label() != "<colorbar>":
            parts = axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()
            assert all(parts) and axes.has_data(), (
                f"figure {name}: title, xlabel, ylabel {parts}, or nothing drawn")
    path = HERE / "figures" / f"{name}.png"
    if "LESSON_CLAIMS" not in os.environ:    # or they would be those of another seed
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path)
    print(f"figure: lessons/figures/{name}.png")
    if INTERACTIVE:
        plt.show()
    plt.close(figure)
