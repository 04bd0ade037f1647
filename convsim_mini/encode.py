"""Embed sentences with a trained run: compare them, search lines, or write vectors to disk.

    python -m convsim_mini.encode RUN "How old are you?" "What is your age?"
    python -m convsim_mini.encode RUN --search FILE "How old are you?"
    python -m convsim_mini.encode RUN --file FILE --index DIR [--add] [--replies]
    python -m convsim_mini.encode RUN --index DIR "How old are you?"
    python -m convsim_mini.encode RUN --out vectors.npy < sentences.txt

FILE: lines of text, or a table with named columns (data_scripts/README.md lists the formats)
"""

if not __package__:
    raise SystemExit("run it by name, in the repository: python -m convsim_mini.encode")

import json
from itertools import islice

from .fast.host import use_all_cores
from .common.cli import (
    UserError, errors_in_one_line, one_line, parser_of, path_of, positive_int, progress)
from .common.files import OURS_NPY, check_replaceable, write_rows
from .common.lines import chunked
from .common.show import table
from .data.layouts import Reading
from .inference.index import weight_of
from .inference.rows import LINE, rows_of_file, rows_of_texts
from .inference.sentence_encoder import encoder_of, warn_if_unknown
from .inference.stored import add_to_index, build_index, index_at
from .training.run import load_run

CHUNK = 4_096    # sentences whose vectors are in memory at a time
MOST_SENTENCES = 30    # to compare, or to search for, at once


def parse_options(argv):
    """The options of the command. Raises UserError for those that do not fit together."""
    parser = parser_of("encode", __doc__, "--device")
    parser.add_argument("texts", nargs="*", metavar="SENTENCE",
                        help="if none is given, and no --file, lines of standard input are read")
    parser.add_argument("--file", type=path_of, metavar="FILE",
                        help="read sentences from FILE: lines or a table; plain, .gz or .zst")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--search", type=path_of, metavar="FILE",
                      help="print the rows of FILE that are nearest to each sentence")
    what.add_argument("--index", type=path_of, metavar="DIR", help="with --file: store its rows "
                      "and their vectors in a new folder DIR; otherwise: search in DIR")
    what.add_argument("--out", type=path_of, metavar="FILE",
                      help="write the vectors to FILE as .npy: float32 (sentences, dimension)")
    parser.add_argument("--add", action="store_true",
                        help="add those rows of --file to --index that it does not hold yet")
    parser.add_argument("--key", metavar="COLUMN", help="with --add: replace rows with the same "
                        "value in this column, such as a ticket's number")
    parser.add_argument("--column", metavar="NAME", dest="columns", nargs=1, default=(),
                        help="which column of a table to embed, if its name is not a known one")
    parser.add_argument("--encoding", metavar="NAME", default="utf-8",
                        help="of a file without a mark (BOM), such as cp1252 (default: utf-8)")
    parser.add_argument("--replies", action="store_true",
                        help="embed a table's replies, so that a search finds the best answers")
    parser.add_argument("--json", action="store_true", help="print each hit as a JSON object")
    parser.add_argument("--top", type=positive_int, default=10, help="how many rows to print")
    parser.add_argument("--tuned", action="store_true", help="use the matrix that `tune` learned")
    parser.add_argument("--words", type=float, metavar="W", help="how much shared words count, "
                        "compared with meaning (default: 1; 0.3 if replies are searched)")
    options = parser.parse_intermixed_args(argv)
    for wrong, message in (
            (options.texts and options.file,
             f"{options.file}: give sentences as arguments or with --file, not both"),
            (options.add and not (options.file and options.index),
             "--add: needs --file FILE and --index DIR"),
            (options.key is not None and not options.add, "--key: needs --add"),
            (options.json and not (options.search or options.index),
             "--json: prints hits, so it needs --search FILE or --index DIR")):
        if wrong:
            raise UserError(message)
    if options.out:
        check_replaceable(options.out, OURS_NPY, options.file)
    return options


def write_vectors(encoder, rows, path):
    """Write the vectors of Rows, a chunk at a time, as an .npy file; → a report."""
    chunks = progress(chunked(rows.rows, CHUNK), "encoding", unit=" blocks", delay=1)
    vectors = (encoder.encode([rows.text(row) for row in chunk], as_responses=rows.replies)
               for chunk in chunks)
    number = write_rows(path, vectors, encoder.dimension)
    return f"{number:,} vectors of {encoder.dimension} dimensions, float32"


def show_hits(query, hits, column, as_json):
    """Print a query and its Hits. column: the one that was embedded"""
    if as_json:
        for hit in hits:
            print(json.dumps({"query": query, **hit._asdict()}))
        return
    print(one_line(query))
    for hit in hits:
        place = f"line {hit.number:,}: " if hit.row.keys() == {LINE} else ""
        parts = f"{hit.meaning:.3f} meaning + {max(hit.score - hit.meaning, 0):.3f} words"
        more = f"  (and {hit.copies - 1:,} more like it)" * (hit.copies > 1)
        print(f"  {hit.score:.3f} = {parts}  {place}{one_line(hit.row[column] or '')}{more}")
        for name in [name for name in hit.row if name != column]:
            values = [row.get(name) for row in [hit.row, *hit.others]]
            for value in dict.fromkeys(one_line(one) for one in values if one not in (None, "")):
                print(f"         {name}: {value}")
    print()


def comparison(encoder, sentences, words):
    """A table of the scores of all pairs of sentences; for a single one, its vector."""
    if len(sentences) == 1:
        return " ".join(f"{number:.3f}" for number in encoder.encode(sentences[0]))
    scores = encoder.scores(sentences, sentences, words)
    rows = [[f"{k} {text}", *(f"{score:.2f}" for score in row)]
            for k, (text, row) in enumerate(zip(sentences, scores), start=1)]
    head = f"cosine of meaning + {words:g} · cosine of words"
    return table([head, *map(str, range(1, len(sentences) + 1))], rows)


def answer(encoder, rows, options, reading):
    """Print what is nearest to each of a few sentences in --search or --index, or compare them.

    Raises UserError for more than 30.
    """
    sentences = [*map(rows.text, islice(rows.rows, MOST_SENTENCES + 1))]
    if len(sentences) > MOST_SENTENCES:
        raise UserError(f"more than {MOST_SENTENCES} sentences: too many to compare or search for "
                        "at once; give fewer, or write their vectors with --out FILE.npy")
    if options.search or options.index:
        index = index_at(encoder, options.search or options.index, reading)
        for query, hits in zip(sentences, index.search(sentences, options.top, options.words)):
            show_hits(query, hits, index.held.column, options.json)
    else:
        print(comparison(encoder, sentences, weight_of(options.words)))
    warn_if_unknown(sentences, encoder.vocabulary)


@errors_in_one_line()
def main(argv=None):
    """The command: write vectors or an index of all rows, search for a few, or compare them."""
    options = parse_options(argv)
    use_all_cores()
    encoder = encoder_of(load_run(options.run, options.device), options.tuned)
    reading = Reading(options.columns, options.encoding, encoder.columns,
                      "response" if options.replies else "input")
    # without --file and --out, --column is of the table that is searched
    own = reading if options.file or options.out else reading._replace(columns=())
    rows = rows_of_texts(options.texts, own) if options.texts else rows_of_file(options.file, own)
    if options.out:
        print(f"{options.out}: {write_vectors(encoder, rows, options.out)}")
    elif options.add:
        print(f"{options.index}: {add_to_index(encoder, rows, options.index, options.key)}")
    elif options.index and options.file:
        print(f"{options.index}: {build_index(encoder, rows, options.index)}")
    else:
        answer(encoder, rows, options, reading)


if __name__ == "__main__":
    main()
