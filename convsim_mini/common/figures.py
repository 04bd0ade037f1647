"""Figures, drawn without a display and written atomically."""

import numpy as np
from matplotlib.figure import Figure

from .files import replace_file


def new_figure(columns=1):
    """A Figure with plots side by side, each usually half a page wide, and its axes."""
    figure = Figure(figsize=(6 * columns, 4.2), layout="constrained")
    axes = figure.subplots(1, columns)
    for one in np.atleast_1d(axes):
        one.grid(alpha=0.3)
    return figure, axes


def save_figure(figure, path):
    """Write a Figure as .png or .svg, as the path's suffix says. Raises UserError if that fails."""
    replace_file(path, lambda temporary: figure.savefig(temporary, dpi=120))
