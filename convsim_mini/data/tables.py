"""Tables in memory → rows, which are dicts: column → value."""

import re
from collections import Counter
from collections.abc import Mapping

from ..common.cli import UserError, say, user_errors
from .layouts import FIELDS

INVISIBLE = re.compile("[\0\u200b-\u200f\u2060\ufeff]")    # in names of columns
MOST_COLUMNS = 10_000


def rows_of_table(table):
    """The rows of a table, as an iterable of dicts.

    table: from pandas, polars or arrow, or an iterable of dicts, named tuples or (input, response)
    pairs, such as a Hugging Face Dataset or NumPy rows. Raises UserError for other rows.
    """
    if isinstance(table, Mapping) or hasattr(table, "collect") or (
            getattr(getattr(table, "dtype", None), "names", None)):         # NumPy's records
        raise UserError(f"a {type(table).__name__} has no rows; give one of its tables, such "
                        'as ["train"], or make one, with pandas.DataFrame(…) or .collect()')
    if hasattr(table, "itertuples"):                          # pandas
        names = names_of_columns("the table", table.columns)
        table = table.astype(object).where(table.notna(), None)
        return (dict(zip(names, map(_plain, row))) for row in table.itertuples(False, None))
    if hasattr(table, "with_format"):                         # a Hugging Face Dataset, whose rows
        return map(row_of, table.with_format(None))             # may be tables in other formats
    if hasattr(table, "to_pylist"):                           # arrow, which knows pandas's index
        names = names_of_columns("the table", table.schema.names)
        own = [k for k, name in enumerate(names) if name and name[:14] != "__index_level_"]
        return table.rename_columns(names).select(own).to_pylist()
    if hasattr(table, "to_dicts"):                            # polars
        return table.to_dicts()
    with user_errors(f"a {type(table).__name__} has no rows",
                     "give pairs, a table or a file's name", TypeError):
        return map(row_of, iter(table))


def row_of(row):
    """One row as a dict: column → value. Raises UserError if it is none."""
    row = row._asdict() if hasattr(row, "_asdict") else _plain(row)
    if isinstance(row, Mapping):
        return {str(name): _plain(value) for name, value in row.items()}
    if isinstance(row, (list, tuple)) and len(row) == 2:
        return dict(zip(FIELDS, row))
    raise UserError(f"a row is {str(row):.60}; expected (message, reply), or a dict of columns")


def _plain(value):
    """A NumPy value as a Python value; any other value as it is."""
    return value.tolist() if hasattr(value, "tolist") else value


def names_of_columns(table, header):
    """A header's names, stripped; "" for a repeated one. table: its name. Raises UserError."""
    if len(header) > MOST_COLUMNS:
        raise UserError(f"{table}: has {len(header):,} columns, expected at most {MOST_COLUMNS:,}; "
                        "keep only the columns that hold the texts")
    names = [" ".join(INVISIBLE.sub("", str(name)).split()) for name in header]
    if twice := [name for name, times in Counter(names).items() if name and times > 1]:
        say(f"{table}: several columns are called {', '.join(twice)}; the first is read")
    return [name if names.index(name) == place else "" for place, name in enumerate(names)]
