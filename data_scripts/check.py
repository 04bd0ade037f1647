"""Is a file of a data set the official one? Its rows are counted and its first pair is compared.

A count proves little: a translation of the STS Benchmark with the same number of rows is in
circulation.
"""

import hashlib

from convsim_mini.common.cli import UserError, one_line
from convsim_mini.common.lines import text_lines
from convsim_mini.data.labelled import lines_of
from convsim_mini.data.formats import read_jsonl, read_tsv
from convsim_mini.data.layouts import Reading
from convsim_mini.evaluation.cqa import read as read_questions
from convsim_mini.evaluation.sts import read as read_sts


def compare(path, file, kind):
    """Compare a file with its registry entry; → (report, problem).

    report: what was found, in words; problem: "rows" for another number of them, or else "first"
    for another first pair, or None. Raises UserError for a file that cannot be read as this kind.
    """
    rows, pair = READERS[kind](path)
    found, problem = fingerprint(pair), None
    if file.rows is None:
        report = f"{rows:,} rows (not checked: the right number is not known)"
    elif file.rows == rows:
        report = f"{rows:,} rows"
    else:
        report = f"{rows:,} rows where the official file has {file.rows:,}"
    if file.first is None:
        report += "; first pair not checked: not known"
    elif file.first == found:
        report += "; first pair as expected"
    else:
        problem = "first"
        report += (f'; the first pair is "{one_line(pair[0], 60)}" and "{one_line(pair[1], 60)}", '
                   f"not the official one ({found}, not {file.first})")
    return report, problem if file.rows in (None, rows) else "rows"


def fingerprint(pair):
    """16 digits of the sha256 of two texts' letters and digits, so that tokenised copies agree."""
    letters = "|".join("".join(filter(str.isalnum, text.casefold())) for text in pair)
    return hashlib.sha256(letters.encode("utf-8")).hexdigest()[:16]


# ---------------------------------------------------------------- path → (rows, first pair)

def _sts(path):
    sts = read_sts(path)
    return len(sts.labels), (sts.sentences1[0], sts.sentences2[0])


def _cqa(path):
    questions = read_questions(path)
    pair = questions[0].text, questions[0].candidates[0].text
    return sum(len(question.candidates) for question in questions), pair


def _named(read, *fields):
    """A reader of rows with fields of these names. read: function(path, reading=…) → records"""
    def rows_and_first(path):
        records = read(path, reading=Reading(fields))
        _, first = next(records, (1, {}))
        try:
            pair = tuple(str(first[name]) for name in fields)
        except (KeyError, TypeError):                         # TypeError: for no row
            raise UserError(f"{path}: expected rows with the fields {' and '.join(fields)}"
                            ) from None
        return 1 + sum(1 for _ in records), pair
    return rows_and_first


def _sts_year(path):
    """Pairs, or one score per line; an empty line is a pair without a score."""
    rows = [line.split("\t") for line in text_lines(path) if line.strip()]
    if not rows:
        raise UserError(f"{path}: holds no row")
    return len(rows), tuple((rows[0] + ["", ""])[:2])


def _senteval_lines(path):
    """One sentence per line, maybe with a label. Empty lines are rows; rows 1 and 2 are a pair."""
    rows = lines_of(path, "SentEval", "latin-1")
    return len(rows), (rows[0], *rows[1:2])


READERS = {"sts": _sts, "cqa": _cqa, "sts_year": _sts_year, "lines": _senteval_lines,
           "snli": _named(read_jsonl, "sentence1", "sentence2"),
           "convokit": _named(read_jsonl, "speaker", "text"),    # a first one has no partner
           "sick": _named(read_tsv, "sentence_A", "sentence_B"),
           "mrpc": _named(read_tsv, "#1 String", "#2 String")}
