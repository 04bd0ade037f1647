"""A page is a list of blocks. One writer turns them into Markdown, the other into HTML.

A str is a paragraph, or a heading where it begins with "## " or "### ". In it, what stands between
backquotes is code. The other blocks are a Table, a Figure and Points. page.html is the frame of the
HTML page. page.js searches the points.
"""

import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

import numpy as np

from ..common.figures import as_svg, new_figure, save_figure
from ..common.tables import html_table, markdown

SEARCH = '<label>Search <input type="search"> <output></output></label>'
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c")


class Table(NamedTuple):
    """A table: its header, and its rows of cells."""

    header: list
    rows: list


class Figure(NamedTuple):
    """A figure, which plot(path, *given) draws. name: of its file in a Markdown page."""

    name: str
    plot: Callable
    given: tuple = ()


class Points(NamedTuple):
    """A scatter plot of n points for an HTML page. A point shows its text under the pointer."""

    places: np.ndarray      # (n, 2)
    groups: np.ndarray      # (n,): names; each has its own colour
    texts: list
    labels: dict            # of the axes
    search: bool = False    # whether a field searches the texts


def to_markdown(title, blocks, folder):
    """Blocks as Markdown: str. Each Figure is written into the folder, as a PNG file."""
    parts = [f"# {title}"]
    for block in blocks:
        if isinstance(block, Table):
            block = markdown(*block)
        elif isinstance(block, Figure):
            block.plot(folder / f"{block.name}.png", *block.given)
            block = f"![{block.name}]({block.name}.png)"
        parts.append(block)
    return "\n\n".join(parts) + "\n"


def to_html(title, blocks):
    """Blocks as one page of HTML that needs no other file: str. It begins with its contents."""
    links, body = [], []
    for number, block in enumerate(blocks):
        if isinstance(block, str) and block.startswith("#"):
            marks, text = block.split(" ", 1)
            tag, before = {"##": ("h2", "<li>"), "###": ("h3", "· ")}[marks]
            links.append(f'{before}<a href="#part{number}">{escape(text)}</a>')
            body.append(f'<{tag} id="part{number}">{escape(text)}</{tag}>')
        elif isinstance(block, str):
            body.append("<p>" + re.sub("`(.*?)`", r"<code>\1</code>", escape(block)) + "</p>")
        elif isinstance(block, Table):
            body.append(f'<div class="wide">{html_table(*block)}</div>')
        elif isinstance(block, Figure):
            body.append(as_svg(block.plot, *block.given))
        else:
            body.append(_html_of_points(block))
    frame, style, script = (Path(__file__).with_name(name).read_text(encoding="utf-8")
                            for name in ("page.html", "page.css", "page.js"))
    return Template(frame).substitute(title=escape(title), style=style, script=script,
                                      links="\n".join(links), body="\n".join(body))


def _html_of_points(points):
    """Points as HTML. Each point is a circle of SVG, and its text is the circle's title."""
    figure, axes = new_figure(10, 6)
    colours = dict(zip(np.unique(points.groups), COLOURS))
    for name, colour in colours.items():
        axes.scatter([], [], color=colour, label=name)
    axes.set(**points.labels)
    figure.legend(loc="outside upper right", ncols=len(colours))          # no point lies on it
    axes.update_datalim(points.places)
    axes.autoscale_view()
    drawn = as_svg(lambda path: save_figure(figure, path))    # only now the axes have their place
    to_inches = axes.transData + figure.dpi_scale_trans.inverted()
    x, y = 72 * to_inches.transform(points.places).T
    height = 72 * figure.get_figheight()
    circles = [f'<circle cx="{left:.1f}" cy="{height - up:.1f}" r="3" fill="{colours[group]}">'
               f"<title>{escape(text)}</title></circle>"
               for left, up, group, text in zip(x, y, points.groups, points.texts)]
    drawn = drawn.replace("</svg>", "<g>\n" + "\n".join(circles) + "\n</g></svg>")
    return f"<div>{SEARCH if points.search else ''}{drawn}</div>"
