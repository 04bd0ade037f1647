"""Figures, drawn without a display and written whole or not at all."""

from matplotlib.figure import Figure

from .files import replace_file


def new_figure():
    """A Figure for half a page, and its axes."""
    figure = Figure(figsize=(6, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.3)
    return figure, axes


def save_figure(figure, path):
    """Write a Figure as PNG. Raises UserError where that cannot be done."""
    replace_file(path, lambda temporary: figure.savefig(temporary, format="png", dpi=120))
