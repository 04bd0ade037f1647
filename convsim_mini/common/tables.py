"""Tables for the terminal and in Markdown."""

from tabulate import tabulate


def table(header, rows):
    """Columns of strings, the first flush left, the others flush right."""
    sides = ["left", *["right"] * (len(header) - 1)]
    return tabulate(rows, header, disable_numparse=True, colalign=sides)


def markdown(header, rows):
    """A table in Markdown, with all columns flush left; a vertical bar in a cell is escaped."""
    header, *rows = ([str(cell).replace("|", "\\|") for cell in row] for row in (header, *rows))
    return tabulate(rows, header, "pipe", disable_numparse=True)
