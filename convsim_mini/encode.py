"""Embed sentences with a trained run: compare them, search lines, or write vectors to disk.

    python -m convsim_mini.encode RUN "How old are you?" "What is your age?"
    python -m convsim_mini.encode RUN --search FILE "How old are you?"
    python -m convsim_mini.encode RUN --file FILE --index DIR [--add] [--replies]
    python -m convsim_mini.encode RUN --search "How old are you?" --index DIR
    python -m convsim_mini.encode RUN --out vectors.npy < sentences.txt

FILE: lines of text, or a table (.csv, .tsv, .jsonl, .parquet) with named columns
"""

import json
import os
import sys
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path

from .fast.threads import claim_process
from .common.cli import Parser, UserError, errors_in_one_line, positive_int
from .common.files import write_rows
from .common.tables import table
from .inference.index import Index, build_index, embedded, nearest
from .inference.rows import LINE, Rows, rows_of_file, rows_of_texts
from .inference.sentence_encoder import load, tell_unknown

MOST_COMPARED = 30


def comparison(encoder, sentences):
    """A table of the cosines of all sentences; for a single sentence a line about its vector."""
    vectors = encoder.encode(sentences)
    if len(sentences) == 1:
        begin = " ".join(f"{number:.3f}" for number in vectors[0, :8])
        return (f"{vectors.shape[1]} numbers of unit length, from {vectors.min():.3f} to "
                f"{vectors.max():.3f}: {begin} …\nGive two sentences or more to compare them, or "
                "--out FILE.npy to write all the numbers.")
    rows = [[f"{k} {text}", *(f"{cosine:.2f}" for cosine in row)]
            for k, (text, row) in enumerate(zip(sentences, vectors @ vectors.T), start=1)]
    return table(["cosine", *map(str, range(1, len(sentences) + 1))], rows)


def parse_options(argv):
    """The command's options."""
    parser = Parser(prog="python -m convsim_mini.encode", description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("texts", nargs="*", metavar="SENTENCE",
                        help="without any, and without --file, the lines of standard input")
    add_file = partial(parser.add_argument, type=Path, metavar="FILE")
    add_file("--file", help="read sentences from here, lines or a table; plain, .gz or .zst")
    parser.add_argument("--search", metavar="FILE", help="print the rows of FILE nearest to each "
                        "sentence; with --index give the first sentence here instead")
    parser.add_argument("--index", type=Path, metavar="DIR",
                        help="with --file: keep its rows and their vectors in the new folder DIR; "
                        "otherwise: print the rows in DIR nearest to each sentence")
    parser.add_argument("--add", action="store_true", help="add the rows of --file to --index")
    parser.add_argument("--column", metavar="NAME", dest="columns", nargs=1, default=(),
                        help="the column of a table to embed, if not the question or message that "
                        "training would find")
    parser.add_argument("--replies", dest="side", action="store_const", const=1, default=0,
                        help="embed a table's replies, so that a search finds the best answers")
    parser.add_argument("--json", action="store_true", help="print each hit as a JSON object")
    parser.add_argument("--parts", action="store_true",
                        help="print how much of a score is learned and how much counts words")
    add_file("--out", help="write the vectors here, as .npy: float32 (sentences, dimension)")
    parser.add_argument("--top", type=positive_int, default=10, help="rows that a search prints")
    parser.add_argument("--tuned", action="store_true", help="with the matrix that `tune` learned")
    parser.add_argument("--no_words", action="store_true",
                        help="the learned half of the vectors alone, as the paper has it")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    options = parser.parse_intermixed_args(argv)
    if options.out and (options.search is not None or options.index):
        other = "--index" if options.index else "--search"
        raise UserError(f"{other} and --out: choose one: print lines or write vectors")
    if options.index and options.search is not None:
        if Path(options.search).is_file():
            raise UserError(f"--search {options.search} and --index {options.index}: choose one: "
                            "search the file or the index")
        options.texts.insert(0, options.search)
    if options.add and not (options.index and options.file):
        raise UserError("--add: expected --file FILE and --index DIR beside it")
    if (options.json or options.parts) and options.search is None and not options.index:
        raise UserError("--json and --parts: expected --search FILE or --index DIR beside them")
    # bytes that are not UTF-8 come as half surrogates, which cannot be printed
    options.texts = [text.encode("utf-8", "replace").decode() for text in options.texts]
    if options.texts and options.file:
        raise UserError(f"{options.file} and {options.texts[0]!r}: give sentences as arguments or "
                        "with --file, not both")
    if options.out and not options.texts and _is_same(options.out, options.file):
        raise UserError(f"{options.out}: --out is the file that the sentences come from, which it "
                        "would replace; choose another name")
    return options


def _is_same(path, source):
    """Whether both names, or path and standard input (None), are one file."""
    with suppress(OSError, ValueError, AttributeError):       # one is not there, or is closed
        read = os.stat(source) if source else os.fstat(sys.stdin.fileno())
        return os.path.samestat(os.stat(path), read)


def search(encoder, queries, options):
    """The Index or the Rows that are searched, and for each query the nearest rows as Hits."""
    if options.index:
        index = Index(options.index, encoder)
        return index, index.search(queries, options.top)
    rows = rows_of_file(Path(options.search), options.columns, options.side)
    return rows, nearest(encoder.encode(queries), embedded(encoder, rows), options.top)


def shares(encoder, query, hits, rows):
    """What the learned half and the words add to the score of each Hit: a list of dicts."""
    again = Rows(rows.columns, rows.side, [[hit.row for hit in hits]])
    products = encoder.encode(query) * next(embedded(encoder, again))[0]          # (hits, e)
    e = encoder.model.config.layers[-1]                       # the others count words
    return [{"learned": float(product[:e].sum()), "words": float(product[e:].sum())}
            for product in products]


def print_hits(query, hits, parts, column):
    """Print Hits. parts: their shares, or empty dicts; column: the one that was embedded"""
    print(query)
    for hit, part in zip(hits, parts):
        score = f"{hit.score:.3f}"
        if part:
            score += " = " + " + ".join(f"{share:.3f} {name}" for name, share in part.items())
        place = f"line {hit.number:,}: " if hit.row.keys() == {LINE} else ""
        print(f"  {score}  {place}{one_line(hit.row[column])}")
        for name, value in hit.row.items():
            if name != column and value not in (None, ""):
                print(f"         {name}: {one_line(value)}")
    print()


def print_json(query, hits, parts):
    """The same as a JSON object for each Hit."""
    for hit, part in zip(hits, parts):
        print(json.dumps({"query": query, **hit._asdict(), **part}, default=str))


def one_line(value):
    """A cell of a table, which may hold line breaks."""
    return " ".join(str(value).split())


def few(chunks):
    """The sentences of lists of sentences. Raises UserError where they are more than 30."""
    sentences = list(islice(chain.from_iterable(chunks), MOST_COMPARED + 1))
    if len(sentences) > MOST_COMPARED:
        raise UserError(f"more than {MOST_COMPARED} sentences: too many to compare or search for "
                        "at once; give fewer, or write their vectors with --out FILE.npy")
    return sentences


@errors_in_one_line()
def main(argv=None):
    """The command: a table of cosines, nearest rows, an index of rows, or a file of vectors."""
    options = parse_options(argv)
    claim_process()
    encoder = load(options.run, options.device, options.tuned, not options.no_words)
    if options.texts:
        rows = rows_of_texts(options.texts)
    elif options.file:
        rows = rows_of_file(options.file, options.columns, options.side)
    else:
        rows = rows_of_file(None)
    sentences = []                                            # those that are shown
    if options.out:
        number = write_rows(options.out, (vectors for vectors, _ in embedded(encoder, rows)),
                            encoder.dimension)
        print(f"{options.out}: {number:,} vectors of {encoder.dimension} numbers, float32, unit "
              "length")
    elif options.add:
        print(f"{options.index}: {Index(options.index, encoder).add(rows)}")
    elif options.index and options.file:
        print(f"{options.index}: {build_index(encoder, rows, options.index)}")
    elif options.index or options.search is not None:
        sentences = few(rows.texts)
        source, found = search(encoder, sentences, options)
        for query, hits in zip(sentences, found):
            parts = [{}] * len(hits)
            if options.parts:
                parts = shares(encoder, query, hits, source)
            if options.json:
                print_json(query, hits, parts)
            else:
                print_hits(query, hits, parts, source.columns[source.side])
    else:
        sentences = few(rows.texts)
        print(comparison(encoder, sentences))
    sys.stdout.flush()                                        # an error of it is the only line
    tell_unknown(sentences, encoder.vocabulary)
    if encoder.cut:
        print(f"{encoder.cut:,} sentences had more than {encoder.model.config.max_tokens} words "
              "and were cut there", file=sys.stderr)


if __name__ == "__main__":
    main()
