"""Embed sentences with a trained run: compare them, search lines, or write vectors to disk.

    python -m convsim_mini.encode RUN "How old are you?" "What is your age?"
    python -m convsim_mini.encode RUN --search FILE "How old are you?"
    python -m convsim_mini.encode RUN --file FILE --index DIR
    python -m convsim_mini.encode RUN --search "How old are you?" --index DIR
    python -m convsim_mini.encode RUN --out vectors.npy < sentences.txt
"""

import os
import sys
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path

from .backend import keep_freed_memory
from .common.cli import Parser, UserError, errors_in_one_line, positive_int, progress
from .common.files import chunked, decoded, read_lines, write_rows
from .common.tables import table
from .inference.index import Index, build_index, nearest
from .inference.sentence_encoder import load

CHUNK = 4_096    # lines in memory at a time
MOST_COMPARED = 30


def line_chunks(path):
    """Yield lists of up to 4,096 lines of a file, plain, .gz or .zst, or of standard input (None).

    Raises UserError where a line is not UTF-8, and as `read_lines` does.
    """
    file = size = None
    if path is None and sys.stdin is None:
        raise UserError("standard input: is closed; give sentences there, or as arguments, or with "
                        "--file")
    if path is None:
        path, file = Path("standard input"), sys.stdin.buffer
    elif path.is_file():
        size = path.stat().st_size
    with progress(total=size, desc="encoding", unit="B", unit_scale=True) as bar:
        lines = read_lines(path, lambda position: bar.update(position - bar.n), file)
        yield from chunked(decoded(path, lines, "expected one sentence a line"), CHUNK)


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
    add_file("--file", help="read sentences from here, one a line; plain, .gz or .zst")
    parser.add_argument("--search", metavar="FILE", help="print the lines of FILE nearest to each "
                        "sentence; with --index give the first sentence here instead")
    parser.add_argument("--index", type=Path, metavar="DIR",
                        help="with --file: keep its lines and their vectors in the new folder DIR; "
                        "otherwise: print the lines in DIR nearest to each sentence")
    add_file("--out", help="write the vectors here, as .npy: float32 (sentences, dimension)")
    parser.add_argument("--top", type=positive_int, default=10, help="lines that a search prints")
    parser.add_argument("--tuned", action="store_true", help="with the matrix that `tune` learned")
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
    """For each query the nearest lines of an index or a file, as `nearest`."""
    if options.index:
        return Index(options.index, encoder).search(queries, options.top)
    blocks = ((encoder.encode(lines), lines) for lines in line_chunks(Path(options.search)))
    return nearest(encoder.encode(queries), blocks, options.top)


def few(chunks):
    """The sentences of lists of sentences. Raises UserError where they are more than 30."""
    sentences = list(islice(chain.from_iterable(chunks), MOST_COMPARED + 1))
    if len(sentences) > MOST_COMPARED:
        raise UserError(f"more than {MOST_COMPARED} sentences: too many to compare or search for "
                        "at once; give fewer, or write their vectors with --out FILE.npy")
    return sentences


@errors_in_one_line()
def main(argv=None):
    """The command: a table of cosines, nearest lines, an index of lines, or a file of vectors."""
    options = parse_options(argv)
    keep_freed_memory()
    encoder = load(options.run, options.device, options.tuned)
    chunks = [options.texts] if options.texts else line_chunks(options.file)
    if options.out:
        rows = write_rows(options.out, map(encoder.encode, chunks), encoder.dimension)
        print(f"{options.out}: {rows:,} vectors of {encoder.dimension} numbers, float32, unit "
              "length")
    elif options.index and options.file:
        print(f"{options.index}: {build_index(encoder, chunks, options.index)}")
    elif options.index or options.search is not None:
        queries = few(chunks)
        for query, hits in zip(queries, search(encoder, queries, options)):
            print(query)
            for cosine, number, line in hits:
                print(f"  {cosine:.3f}  line {number:,}: {line}")
            print()
    else:
        print(comparison(encoder, few(chunks)))
    if encoder.cut:
        print(f"{encoder.cut:,} sentences had more than {encoder.model.config.max_tokens} words "
              "and were cut there", file=sys.stderr)


if __name__ == "__main__":
    main()
