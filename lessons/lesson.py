"""What all lessons share: convsim_mini on the path, values and ranges, exercises, figures."""

import builtins
import sys
from pathlib import Path

import matplotlib

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

INTERACTIVE = hasattr(builtins, "__IPYTHON__") or hasattr(sys, "ps1")
if not INTERACTIVE:
    matplotlib.use("Agg")    # a script draws to files and opens no window
    sys.stdout.reconfigure(errors="replace")    # "?" for what a pipe's code page does not have

import matplotlib.pyplot as plt    # after the choice of its backend

plt.rcParams.update({
    "figure.figsize": (8, 4.5), "figure.dpi": 120, "figure.constrained_layout.use": True,
    "font.size": 11, "axes.titlesize": 12, "axes.titlelocation": "left", "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25, "legend.frameon": False,
    "image.cmap": "RdBu_r"})

judges = {}    # exercise number → its judge, for solutions/prove.py


def expect(value, low, high, what):
    """Print a number beside the range that the lesson derived for it; assert that it lies there."""
    print(f"{what}: {value:.4g}   (expected {low:.4g} to {high:.4g})")
    assert low <= value <= high, f"{what}: {value} is not within {low} to {high}"


def check(number, answer, judge):
    """Say whether an exercise is solved.

    judge(answer) asserts what a right answer does, with a hint in each message.
    A stub raises NotImplementedError. A wrong answer prints its hint and stops nothing.
    """
    judges[number] = judge
    try:
        judge(answer)
    except NotImplementedError:
        print(f"exercise {number}: not solved yet")
    except AssertionError as hint:
        print(f"exercise {number}: not right yet: {hint}")
    except Exception as error:    # whatever a half-done answer runs into
        print(f"exercise {number}: fails with {type(error).__name__}: {error}")
    else:
        print(f"exercise {number}: right")


def show(figure, name):
    """Save a figure as lessons/figures/`name`.png; show it too in a notebook or console."""
    for axes in figure.axes:
        if axes.axison and axes.get_label() != "<colorbar>":
            parts = axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel()
            assert all(parts) and axes.has_data(), (
                f"figure {name}: title, xlabel, ylabel {parts}, or nothing drawn")
    path = HERE / "figures" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path)
    print(f"figure: lessons/figures/{name}.png")
    if INTERACTIVE:
        plt.show()
    plt.close(figure)
