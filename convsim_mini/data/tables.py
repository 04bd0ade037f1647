"""Tables in memory → rows, which are dicts: column → value."""

from collections.abc import Mapping

from ..common.cli import UserError
from .layouts import FIELDS

MOST_COLUMNS = 10_000


def rows_of_table(table):
    """The rows of a table as dicts: an iterable.

    table: of pandas, polars or arrow, or an iterable of dicts, named tuples, or pairs (input,
    response): a Dataset of Hugging Face, rows of NumPy. Raises UserError for other rows.
    """
    if isinstance(table, Mapping) or hasattr(table, "collect"):
        raise UserError(f"a {type(table).__name__} has no rows; expected a table that has, as "
                        "pandas.DataFrame(it) or it.collect()")
    if hasattr(table, "itertuples"):                          # pandas
        names = names_of_columns("the table", table.columns)
        table = table.astype(object).where(table.notna(), None)
        return (dict(zip(names, map(_plain, row))) for row in table.itertuples(False, None))
    for method in ("to_pylist", "to_dicts"):                  # arrow, polars
        if hasattr(table, method):
            return getattr(table, method)()
    return map(_row, table)


def _row(row):
    if isinstance(row, Mapping):
        return {str(name): _plain(value) for name, value in row.items()}
    if hasattr(row, "_asdict"):
        return row._asdict()
    pair = _plain(row)
    if isinstance(pair, (list, tuple)) and len(pair) == 2:
        return dict(zip(FIELDS, pair))
    raise UserError(f"a row is {str(row):.60}; expected (message, reply), or a dict of columns")


def is_row(value):
    """Whether a value is the row of a table, or else a text."""
    return isinstance(_plain(value), (Mapping, tuple, list))


def _plain(value):
    """A value of NumPy as Python has it."""
    return value.tolist() if hasattr(value, "tolist") else value


def names_of_columns(table, header):
    """The names in a header, without white space around; of two called "a" one is "a (2)".

    table: its name. Raises UserError for more than MOST_COLUMNS.
    """
    if len(header) > MOST_COLUMNS:
        raise UserError(f"{table}: has {len(header):,} columns, expected at most {MOST_COLUMNS:,}; "
                        "write a table of those that hold the texts")
    names = [str(name).replace("\ufeff", "").strip() for name in header]
    return [f"{name} ({names[:place].count(name) + 1})" if name and name in names[:place] else name
            for place, name in enumerate(names)]
