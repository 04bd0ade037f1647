"""Figures, drawn without a display and written whole or not at all; the curves of a run."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from .files import replace_file


def new_figure(width=6, height=4.2):
    """A Figure, as a rule for half a page, and its axes; width, height: in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.3)
    return figure, axes


def save_figure(figure, path):
    """Write a Figure as PNG, or SVG for a .svg. Raises UserError where that cannot be done."""
    kind = "svg" if Path(path).suffix == ".svg" else "png"
    replace_file(path, lambda temporary: figure.savefig(temporary, format=kind, dpi=120))


def plot_loss(path, losses, measured, choices, best):
    """Losses in training ("loss", "nli_loss") and on dev ("dev_loss"), beside random guessing.

    choices: how many classes or replies each of the two losses chooses among; best: the step at
    which weights are kept, or None
    """
    figure, axes = new_figure()
    for key, name in (("loss", "replies, training"), ("nli_loss", "second task, training")):
        if curve := [(record["step"], record[key]) for record in losses if key in record]:
            axes.plot(*zip(*curve), linewidth=1, label=name)
            _level(axes, np.log(choices[key]), f"picking at random: ln {choices[key]:,}")
    if any("loss" in record for record in losses):
        axes.plot(*zip(*((record["step"], record["dev_loss"]) for record in measured)), "o-",
                  label="replies, dev")
    _mark_kept(axes, best)
    axes.legend()
    axes.set(xlabel="step", ylabel="loss (nats per pair)", title="Loss in training and on dev")
    save_figure(figure, path)


def precisions(record):
    """N, as text → P@N on dev, of a record of log.jsonl."""
    return {name.removeprefix("dev_p"): value for name, value in record.items()
            if name.startswith("dev_p")}


def plot_precision(path, measured, best):
    """P@N on dev against steps. best: the step at which weights are kept, or None."""
    figure, axes = new_figure()
    steps = [record["step"] for record in measured]
    for n in precisions(measured[0]):
        axes.plot(steps, [record[f"dev_p{n}"] for record in measured], "o-",
                  label=f"P@{n}  (at random: {n}%)")
    _mark_kept(axes, best)
    axes.set(xlabel="step", ylabel="true reply among the best N of 100 (%)", ylim=(0, None),
             title="Picking the true reply, on dev")
    axes.legend()
    save_figure(figure, path)


def plot_accuracy(path, measured, classes):
    """NLI's accuracy on dev against steps."""
    figure, axes = new_figure()
    axes.plot(*zip(*((record["step"], record["nli"]) for record in measured)), "o-")
    _level(axes, 100 / classes, "at random")
    axes.set(xlabel="step", ylabel="right of three classes (%)",
             title="Natural language inference, on dev")
    save_figure(figure, path)


def _mark_kept(axes, best):
    """A dotted line at the step whose weights are kept, if there is one."""
    if best is not None:
        axes.axvline(best, color="grey", linestyle=":", label=f"kept: step {best:,}")


def _level(axes, value, text):
    """A dotted line at a value, with a few words at its right end."""
    axes.axhline(value, color="grey", linestyle=":")
    axes.annotate(text, (1, value), (0, 4), xycoords=("axes fraction", "data"),
                  textcoords="offset points", ha="right", color="grey")
