"""Tables for the terminal and in Markdown; figures, drawn without a display."""

import os
import sys

import numpy as np
from tabulate import tabulate

from .cli import harmless
from .files import replace_file


def table(header, rows):
    """Columns of strings, the first flush left, the others flush right."""
    sides = ["left", *["right"] * (len(header) - 1)]
    return harmless(tabulate(rows, header, disable_numparse=True, colalign=sides))


def markdown(header, rows):
    """A table in Markdown, with all columns flush left; a vertical bar in a cell is escaped."""
    header, *rows = ([str(cell).replace("|", "\\|") for cell in row] for row in (header, *rows))
    return tabulate(rows, header, "pipe", disable_numparse=True)


def new_figure(columns=1):
    """A Figure with plots side by side, each usually half a page wide, and its axes."""
    if "ipykernel" not in sys.modules and "inline" in os.environ.get("MPLBACKEND", ""):
        del os.environ["MPLBACKEND"]    # a notebook has started us, perhaps with another Python
    from matplotlib.figure import Figure    # takes half a second, and most commands draw nothing
    figure = Figure(figsize=(6 * columns, 4.2), layout="constrained")
    axes = figure.subplots(1, columns)
    for one in np.atleast_1d(axes):
        one.grid(alpha=0.3)
    return figure, axes


def save_figure(figure, path):
    """Write a Figure as .png or .svg, as the path's suffix says. Raises UserError if that fails."""
    replace_file(path, lambda temporary: figure.savefig(temporary, dpi=120))
