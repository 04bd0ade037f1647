"""Tables for the terminal, and in Markdown."""


def table(header, rows):
    """Columns of strings, the first flush left, the others flush right."""
    rows = [header, *rows]
    widths = [max(len(str(row[k])) for row in rows) for k in range(len(header))]
    lines = []
    for row in rows:
        cells = [str(cell).rjust(width) if k else str(cell).ljust(width)
                 for k, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def markdown(header, rows):
    """The same in Markdown; a vertical bar in a cell is escaped."""
    lines = [[str(cell).replace("|", "\\|") for cell in row] for row in (header, *rows)]
    lines.insert(1, ["---"] * len(header))
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)
