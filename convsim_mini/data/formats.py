"""Files → rows, which are dicts: column → value.

A file gives records, (number, row); a malformed row is replaced by a ValueError that says what is
wrong. To add a format, write a function here and enter it in FORMATS.
"""

import csv
import re
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain, dropwhile, islice, pairwise, takewhile, zip_longest
from pathlib import Path

from ..common.cli import UserError, python_m, say, user_errors
from ..common.lines import LONGEST_LINE, SUFFIXES, parse_object, read_lines, read_object, text_lines
from .layouts import FIELDS, Reading, by_names
from .tables import names_of_columns, row_of, rows_of_table

# what R, SQL, Excel … write into empty cells of tables with a header; elsewhere "NA" may be a text
EMPTY = {"NA", "NULL", "null", "NaN", "nan", "<NA>", "\\N", "#N/A"}
ABOVE_HEADER = re.compile(r'(?i)[ ,;|\r]*|"?sep=.*')    # blank lines, Excel's delimiter
LINES_AHEAD = 100    # that a cell of a .tsv may span


def default_corpus():
    """Path of the data file inside the installed package chitchat-dataset."""
    if package := find_spec("chitchat_dataset"):
        return Path(package.origin).with_name("dataset.json")
    raise UserError("chitchat-dataset: the package with the default corpus is not installed; run "
                    f"{python_m('pip install chitchat-dataset')}, or name your own --pairs")


def parts_of(path):
    """The files in a folder of Parquet parts, as Spark writes it; for any other path, itself."""
    parts = Path(path).rglob("*.parquet") if Path(path).is_dir() else ()
    return sorted(parts) or [path]


def kind_of(path):
    """The suffix of a file's name, without .gz or .zst: a key of FORMATS, or another suffix."""
    path = Path(parts_of(path)[0])
    return (path.with_suffix("") if path.suffix.lower() in SUFFIXES else path).suffix.lower()


def read_file(path, progress=None, reading=Reading()):
    """A file's records. progress: as in `read_lines`. Raises UserError, also for other kinds."""
    kind = kind_of(path)
    is_default = kind == ".json" and Path(path) == default_corpus()
    read = _read_chitchat if is_default else FORMATS.get(kind)
    if not read:
        next(read_lines(path))                                # which recognises zip files, folders
        raise UserError(f'{path}: unknown kind of file "{Path(path).name}"; expected {EXPECTED}')
    return chain.from_iterable(read(part, progress, reading) for part in parts_of(path))


def read_csv(path, progress=None, reading=Reading()):
    """The records of a .csv, whose first line names its columns."""
    return _rows_below(path, _cells_of_csv(path, _lines_of_table(path, progress, reading)))


def read_tsv(path, progress=None, reading=Reading()):
    """The records of a file with tabs between its cells.

    Its first line is a header if columns are given or if it holds known names. Without a header,
    each line is an input and its response, and a quotation mark is a character like any other.
    """
    lines = _lines_of_table(path, progress, reading)
    first = next(lines, "")
    lines, header = chain([first], lines), first.split("\t")
    known = reading.columns or {*header} & {*reading.known}
    if known or by_names([dict.fromkeys(header)])[0]:
        return _rows_below(path, _cells_of_tsv(lines))
    if all(len(cell.split()) < 4 for cell in header):
        say(f"{path}: line 1 is read as a pair, {header}; if it names columns, give --columns")
    return _rows_below(path, (line.split("\t") if line else [] for line in lines), FIELDS)


def _lines_of_table(path, progress, reading):
    """The lines of a table from its header on. \\r ends rows if it ends the header."""
    lines = dropwhile(ABOVE_HEADER.fullmatch, text_lines(path, progress, encoding=reading.encoding))
    header = next(lines, "")
    lines = chain([header], lines)
    if "\r" in header:                                        # an old Mac's
        lines = chain.from_iterable(line.split("\r") for line in lines)
    return (line.replace("\r", " ") for line in lines)


def _rows_below(path, table, given=()):
    """A table's rows of cells as records. given: the columns' names, if no row is a header"""
    header = None if given else next(table)
    names = given or names_of_columns(path, header)
    for number, cells in enumerate(table, start=1 if given else 2):
        if cells == header:                                   # of a file put below another
            continue
        if any(cells[len(names):]) or (given and len(cells) == 1):
            advice = ("input TAB response" if given else "as in the header: is a name missing, "
                      "or are there no quotation marks around a cell with a delimiter?")
            yield number, ValueError(f"{len(cells)} columns, expected {len(names)} ({advice})")
        elif cells:                                           # [] is a blank line
            cells = cells if given else [None if cell in EMPTY else cell for cell in cells]
            yield number, dict(zip_longest(names, cells[:len(names)]))


def _cells_of_csv(path, lines):
    header, row = next(lines, ""), next(lines, "")
    delimiter = max(",;\t|", key=lambda mark: (min(header.count(mark), row.count(mark)),
                                               header.count(mark)))
    csv.field_size_limit(LONGEST_LINE)
    table = csv.reader((f"{line}\n" for line in chain([header, row], lines)), strict=True,
                       delimiter=delimiter, skipinitialspace=True)
    begin = 0                                                 # lines before the row
    try:
        for cells in table:
            yield cells
            begin = table.line_num
    except csv.Error as error:
        raise UserError(f"{path}: the row {begin:,} lines below the header cannot be read ({error})"
                        "; put quotation marks around cells with a comma or a line break, and "
                        'write a " inside them as ""') from None


def _cells_of_tsv(lines):
    """Yield rows of cells. A cell that a program put in quotation marks may hold line breaks.

    A line with a mark is read twice: cut at each tab, then with quoted cells, which counts if it
    gives all columns. Marks that do not enclose a whole cell are part of its text.
    """
    ahead, columns = [*islice(lines, LINES_AHEAD)], 0         # columns: those of the header
    while ahead:
        cells, taken = ahead[0].split("\t") if ahead[0] else [], 1
        if '"' in ahead[0]:
            more = ahead[1:]
            if len(cells) >= columns:                         # then the next such line is a row
                more = takewhile(lambda line: line.count("\t") + 1 < columns, more)
            table = csv.reader((f"{line}\n" for line in chain(ahead[:1], more)), "excel-tab",
                               strict=True)
            with suppress(csv.Error):                         # a mark may be left open
                if len(quoted := next(table)) >= columns:
                    cells, taken = quoted, table.line_num
        yield cells
        columns = columns or len(cells)
        ahead = [*ahead[taken:], *islice(lines, taken)]


def read_jsonl(path, progress=None, reading=Reading()):
    """The records of a .jsonl, one object per line; a list of two texts is a pair."""
    for number, line in enumerate(text_lines(path, progress, encoding=reading.encoding), start=1):
        if number == 1 and re.match(r"\s*\[\s*(\{|\Z)", line):
            raise UserError(f"{path}: is a single JSON array; write one object per line")
        if line.strip():
            try:
                is_list = line.lstrip().startswith("[")
                row = parse_object(f'{{"pair": {line}}}' if is_list else line)
                yield number, row_of(row["pair"]) if is_list else row
            except (ValueError, UserError) as error:
                yield number, ValueError(error)


def _read_parquet(path, progress, reading):
    advice = f"run {python_m('pip install pyarrow')}"
    with user_errors(f"{path}: reading Parquet needs a package", advice, ImportError):
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    damage = (OSError, ValueError, ArrowException)
    with user_errors(f"{path}: cannot be read as Parquet", "write it again", damage):
        batches = map(rows_of_table, ParquetFile(path).iter_batches(1_000))
        yield from enumerate(chain.from_iterable(batches), start=1)


def _read_chitchat(path, progress, reading):
    """The records of chitchat-dataset: adjacent turns of different speakers."""
    conversations = read_object(path, "is missing or damaged", "install chitchat-dataset again")
    pairs = ((*pair, name) for name, one in conversations.items()
             for pair in pairwise(filter(None, one["messages"]))
             if pair[0][0]["sender"] != pair[1][0]["sender"])
    for number, (*pair, name) in enumerate(pairs, start=1):
        texts = (" ".join(part["text"] for part in turn) for turn in pair)
        yield number, dict(zip((*FIELDS, "thread"), (*texts, name)))


# suffix → function(path, progress, Reading) that gives the records
FORMATS = {".tsv": read_tsv, ".csv": read_csv, ".jsonl": read_jsonl, ".ndjson": read_jsonl,
           ".parquet": _read_parquet}
EXPECTED = (f"pairs: a table with named columns ({', '.join(FORMATS)}; JSON: an object per "
            "line; plain, .gz or .zst), or lines of input TAB response in a .tsv; for chat "
            "exports: python -m data_scripts.chats")
