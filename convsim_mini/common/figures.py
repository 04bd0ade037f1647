"""Figures, drawn without a display and written whole or not at all; the curves of a run."""

from contextlib import contextmanager

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
    """Write a Figure as .png or .svg, by the ending of its path. Raises UserError if it cannot."""
    replace_file(path, lambda temporary: figure.savefig(temporary, dpi=120))


def plot_loss(path, losses, measured, choices, best):
    """Losses in training ("loss", "nli_loss") and on dev ("dev_loss"), beside random guessing.

    choices: how many classes or replies each of the two losses chooses among; best: the step at
    which weights are kept, or None
    """
    with _over_steps(path, best, "Loss in training and on dev", "loss (nats per pair)") as axes:
        for key, name in (("loss", "replies"), ("nli_loss", "second task")):
            if key in choices:
                _curve(axes, losses, key, f"{name}, training", "-")
                axes.axhline(np.log(choices[key]), color=axes.lines[-1].get_color(), linewidth=1,
                             linestyle="--", label=f"picking at random: ln {choices[key]:,}")
        if "loss" in choices:
            _curve(axes, measured, "dev_loss", "replies, dev")


def precisions(record):
    """N, as text → P@N on dev, of a record of log.jsonl."""
    return {name.removeprefix("dev_p"): value for name, value in record.items()
            if name.startswith("dev_p")}


def plot_precision(path, measured, best):
    """P@N and NLI's accuracy on dev against steps. best: the step that is kept, or None."""
    with _over_steps(path, best, "Picking the true reply, on dev",
                     "true reply among the best N of 100 (%)") as axes:
        for n in precisions(measured[0]):
            _curve(axes, measured, f"dev_p{n}", f"P@{n}  (at random: {n}%)")
        if "nli" in measured[0]:
            _curve(axes, measured, "nli", "NLI, right of three classes  (at random: 33%)", "s--")
        axes.set_ylim(0)


@contextmanager
def _over_steps(path, best, title, ylabel):
    """Axes to draw on, of a figure that is saved at the end; a dotted line at the step `best`."""
    figure, axes = new_figure()
    yield axes
    if best is not None:
        axes.axvline(best, color="grey", linestyle=":", label=f"kept: step {best:,}")
    axes.set(title=title, xlabel="step", ylabel=ylabel)
    axes.legend()
    save_figure(figure, path)


def _curve(axes, records, key, label, style="o-"):
    """What those records that have a key say of it, against their steps."""
    records = [record for record in records if key in record]
    axes.plot([record["step"] for record in records], [record[key] for record in records], style,
              linewidth=1, label=label)
