"""Figures, drawn without a display and written whole or not at all; the curves of a run."""

import numpy as np
from matplotlib.figure import Figure

from .files import replace_file


def new_figure(columns=1):
    """A Figure, for each column as a rule half a page wide, and its axes."""
    figure = Figure(figsize=(6 * columns, 4.2), layout="constrained")
    axes = figure.subplots(1, columns)
    for one in np.atleast_1d(axes):
        one.grid(alpha=0.3)
    return figure, axes


def save_figure(figure, path):
    """Write a Figure as .png or .svg, by the ending of its path. Raises UserError if it cannot."""
    replace_file(path, lambda temporary: figure.savefig(temporary, dpi=120))


def precisions(record):
    """N, as text → P@N on dev, of a record of log.jsonl."""
    return {name.removeprefix("dev_p"): value for name, value in record.items()
            if name.startswith("dev_p")}


def plot_curves(path, losses, measured, choices, best):
    """P@N and NLI's accuracy on dev, and losses, against steps; beside random guessing.

    losses: records of "loss" and "nli_loss" in training; measured: records of measures on dev;
    choices: how many classes or replies each of these losses chooses among; best: the step at which
    weights are kept, or None
    """
    figure, (right, wrong) = new_figure(columns=2)
    for n in precisions(measured[0]):
        _curve(right, measured, f"dev_p{n}", f"P@{n}  (at random: {n}%)")
    _curve(right, measured, "nli", "NLI, right of three classes  (at random: 33%)", "s--")
    right.set_ylim(0)
    right.set(title="True reply among the best N of 100, on dev", ylabel="messages (%)")
    for key, name in (("loss", "replies"), ("nli_loss", "second task")):
        if key in choices:
            _curve(wrong, losses, key, f"{name}, training", "-")
            wrong.axhline(np.log(choices[key]), linewidth=1, linestyle="--", color="grey",
                          label=f"picking at random: ln {choices[key]:,}")
    if "loss" in choices:
        _curve(wrong, measured, "dev_loss", "replies, dev")
    wrong.set(title="Loss in training and on dev", ylabel="loss (nats per pair)")
    for axes in (right, wrong):
        if best is not None:
            axes.axvline(best, color="grey", linestyle=":", label=f"kept: step {best:,}")
        axes.set_xlabel("step")
        axes.legend()
    save_figure(figure, path)


def _curve(axes, records, key, label, style="o-"):
    """What those records that have a key say of it, against their steps."""
    points = [(record["step"], record[key]) for record in records if key in record]
    if points:
        axes.plot(*zip(*points), style, linewidth=1, label=label)
