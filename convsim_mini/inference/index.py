"""An index: lines and their vectors, embedded once, kept in a folder and searched often.

    vectors.npy      float32 (n, e), unit length
    lines.txt        the n lines, UTF-8
    offsets.npy      int64 (n + 1): line k is bytes offsets[k] to offsets[k + 1] - 1 of lines.txt
    graph.usearch    over a million vectors, where the package usearch is installed
    meta.json        what the vectors depend on, and the checksum of each file; written last

The search is exact without a graph: it reads every vector, 17 ms for 100,000 lines and 170 ms for a
million, on two cores of an AMD EPYC. Through the graph (HNSW, Malkov and Yashunin 2018), measured
with vectors of 500 numbers, it found 95% of the ten nearest among 1,000,001 lines, in 15 to 50 ms.
Making that graph took 17 minutes on two busy cores.
"""

import json
from array import array
from pathlib import Path

import numpy as np

from ..common.cli import UserError, progress, python_m, user_errors
from ..common.files import checksum, new_folder, read_object, write_rows, write_text

FORMAT = 2       # of meta.json
WHOLE = ("vectors.npy", "lines.txt", "offsets.npy")
GRAPH = "graph.usearch"
TIE = 1e-5       # last bits depend on the batch: equal lines have cosines up to 4e-6 apart
BLOCK = 4_096    # vectors at a time, as many as `encode` embeds: equal products, equal cosines
GRAPH_ABOVE = 1_000_000
SEEN = 100       # lines taken from the graph for each line asked for (10 found 79%, 30 found 91%)


def nearest(queries, blocks, top):
    """For each query its nearest lines: (cosine, line number from 1, line), best first.

    This is k-nearest-neighbour search. queries: (q, e); blocks: pairs of vectors (n, e) and their
    n lines. Cosines that follow each other within 1e-5 are a tie. In a tie the first line wins.
    → q lists of up to `top` hits
    """
    hits = [[] for _ in queries]
    before = 0
    for vectors, lines in blocks:
        cosines = queries @ vectors.T                                     # (q, n)
        for k, found in enumerate(hits):
            floor = found[-1][0] if len(found) == top else -np.inf
            new = np.flatnonzero(cosines[k] > floor)
            if len(new) > top:                                # the best ones and ties with them
                new = new[cosines[k, new] >= np.partition(cosines[k, new], -top)[-top] - TIE]
            found += [(float(cosines[k, c]), before + int(c) + 1, lines[c]) for c in new]
            hits[k] = _in_order(found)[:top]
        before += len(lines)
    return hits


def _in_order(hits):
    """Sort hits by falling cosine, and the hits of a tie by their line numbers."""
    hits = sorted(hits, reverse=True)
    cosines = np.array([cosine for cosine, _, _ in hits])
    ties = np.cumsum(np.diff(cosines, prepend=cosines[:1]) < -TIE)      # one number for each tie
    return [hits[k] for k in np.lexsort(([number for _, number, _ in hits], ties))]


class Index:
    """An index folder, opened for a SentenceEncoder. Its files stay on disk and are mapped.

    Raises UserError where a file is missing or damaged, or another run or setting made the vectors.
    """

    def __init__(self, folder, encoder):
        again = f"make the index: {python_m('convsim_mini.encode RUN --file FILE --index DIR')}"
        meta = read_object(Path(folder, "meta.json"), "is missing or damaged", again)
        with user_errors(f"{folder}: is damaged", f"delete it and {again}",
                         (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)):
            if meta.get("format") != FORMAT:
                raise UserError(f"{folder}: is an index of another version; delete it and {again}")
            _check(folder, meta, encoder)
            self.vectors = np.load(Path(folder, "vectors.npy"), mmap_mode="r")
            self.offsets = np.load(Path(folder, "offsets.npy"), mmap_mode="r")
            self.text = np.memmap(Path(folder, "lines.txt"), np.uint8, "r")
            graph = _usearch() if GRAPH in meta["crc32"] else None
            self.graph = graph and graph.restore(Path(folder, GRAPH), view=True)
        self.encoder = encoder

    def __len__(self):
        return len(self.vectors)

    def search(self, sentences, top=10):
        """For each sentence its nearest lines: (cosine, line number from 1, line), best first."""
        queries = np.atleast_2d(self.encoder.encode(sentences))
        if self.graph is None:
            starts = progress(range(0, len(self), BLOCK), desc="searching", unit=" blocks", delay=1)
            blocks = ((self.vectors[start:start + BLOCK], range(start, start + BLOCK))
                      for start in starts)
            found = nearest(queries, blocks, top)
        else:
            found = []
            for query in queries:
                rows = sorted(self.graph.search(query, SEEN * top).keys.tolist())
                found += nearest(query[None], [(self.vectors[rows], rows)], top)
        return [[(cosine, row + 1, self._line(row)) for cosine, _, row in hits] for hits in found]

    def _line(self, row):
        begin, end = self.offsets[row:row + 2]
        return bytes(self.text[begin:end - 1]).decode(errors="replace")


def _check(folder, meta, encoder):
    other = [name for name, value in encoder.identity.items() if meta["made_by"].get(name) != value]
    if other:
        raise UserError(f"{folder}: was made by another run or with other options (different: "
                        f"{', '.join(other)}); search with those, or make another index")
    if not {*WHOLE} <= meta["crc32"].keys() <= {*WHOLE, GRAPH} or len(meta) != 3:
        raise ValueError("meta.json names other files than an index has")
    for name, crc in meta["crc32"].items():
        path = Path(folder, name)
        if not path.exists() or checksum(path) != crc:
            raise ValueError(f"{name} is missing or not as it was written")


def build_index(encoder, chunks, folder):
    """Embed lists of lines and keep them in a new folder, whole or not at all; → a report.

    Raises UserError where the folder is there already or cannot be written.
    """
    with new_folder(folder, "choose another folder with --index") as new:
        offsets = array("q", [0])

        def embedded(text):
            for lines in chunks:
                for line in lines:
                    offsets.append(offsets[-1] + text.write(line.encode() + b"\n"))
                yield encoder.encode(lines)

        with open(new / "lines.txt", "wb") as text:
            number = write_rows(new / "vectors.npy", embedded(text), encoder.dimension)
        np.save(new / "offsets.npy", np.frombuffer(offsets, np.int64))
        how = "each search is exact"
        if number > GRAPH_ABOVE and _usearch():
            _save_graph(np.load(new / "vectors.npy", mmap_mode="r"), new / GRAPH)
            how = "a search through its graph is fast but may miss some of the nearest lines"
        meta = {"format": FORMAT, "made_by": encoder.identity,
                "crc32": {path.name: checksum(path) for path in new.iterdir()}}
        write_text(new / "meta.json", json.dumps(meta))
    return f"{number:,} lines; {how}"


def _usearch():
    """The class of graphs of the package usearch, or None where it is not installed."""
    try:
        from usearch.index import Index as Graph
    except ImportError:
        return None
    return Graph


def _save_graph(vectors, path):
    graph = _usearch()(ndim=vectors.shape[1], metric="ip", dtype="f16")
    for start in progress(range(0, len(vectors), BLOCK), desc="graph", unit=" blocks"):
        block = vectors[start:start + BLOCK]
        graph.add(np.arange(start, start + len(block)), block)
    graph.save(path)
