"""An index: lines and their vectors, embedded once, kept in a folder and searched often.

    vectors.npy      float32 (n, e), unit length
    lines.txt        the n lines, UTF-8
    offsets.npy      int64 (n + 1): line k is bytes offsets[k] to offsets[k + 1] - 1 of lines.txt
    graph.usearch    over a million vectors, where the package usearch is installed
    meta.json        what the vectors depend on, size and checksum of each file; written last

The search is exact without a graph: it reads every vector, which takes 11 ms of 100,000 lines and
90 ms of a million on two cores. Through the graph (HNSW, Malkov and Yashunin 2018) it reads a few
thousand and may miss some of the nearest lines: of the ten nearest it found 98% among 100,000 texts
from Reddit and 95% among 1,000,001, there in 15 to 50 ms. Making that graph took 17 minutes on two
busy cores, where embedding takes half a minute. Opening an index reads all of it to compare
checksums: 75 ms for 100,000 lines of 500 numbers.
"""

import json
from array import array
from pathlib import Path

import numpy as np

from .cli import UserError, progress, user_errors
from .files import checksum, new_folder, read_object, write_rows, write_text

TIE = 1e-6       # a vector's last bits depend on its batch: equal lines have cosines 1e-7 apart
BLOCK = 4_096    # vectors at a time, as many as `encode` embeds: equal products, equal cosines
GRAPH_ABOVE = 1_000_000
SEEN = 100       # lines taken from the graph for each line asked for (10 found 79%, 30 found 91%)
REBUILD = "make the index: python -m convsim_mini.encode RUN --file FILE --index DIR"


def nearest(queries, blocks, top):
    """For each query its nearest lines: (cosine, line number from 1, line), best first.

    queries: (q, e); blocks: pairs of vectors (n, e) and their n lines. Cosines that follow each
    other within 1e-6 are a tie, of which the first line wins. → q lists of up to `top` hits
    """
    hits, before = [[] for _ in queries], 0
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
    """Hits, best first, and those of a tie in the order of their lines."""
    ranks, tie, last = [], 0, np.inf
    for hit in sorted(hits, reverse=True):
        tie, last = tie + (last - hit[0] > TIE), hit[0]
        ranks.append((tie, hit[1], hit))
    return [hit for *_, hit in sorted(ranks)]


class Index:
    """An index folder, opened for a SentenceEncoder. Its files stay on disk and are mapped.

    Raises UserError where a file is missing or damaged, or another run or setting made the vectors.
    """

    def __init__(self, folder, encoder):
        meta = read_object(Path(folder, "meta.json"), "is missing or damaged", REBUILD)
        with user_errors(f"{folder}: is damaged", f"delete it and {REBUILD}",
                         (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError)):
            _check(folder, meta, encoder)
            self.vectors = np.load(Path(folder, "vectors.npy"), mmap_mode="r")
            self.offsets = np.load(Path(folder, "offsets.npy"), mmap_mode="r")
            self.text = np.memmap(Path(folder, "lines.txt"), np.uint8, "r")
            path, usearch = Path(folder, "graph.usearch"), _usearch()
            graph = usearch and path.name in meta["files"]
            self.graph = usearch.restore(path, view=True) if graph else None
        self.encoder = encoder

    def __len__(self):
        return len(self.vectors)

    def search(self, sentences, top=10):
        """For each sentence its nearest lines: (cosine, line number from 1, line), best first."""
        queries = np.atleast_2d(self.encoder.encode(sentences))
        find = self._all if self.graph is None else self._near
        return [[(cosine, row + 1, self._line(row)) for cosine, _, row in hits]
                for hits in find(queries, top)]

    def _all(self, queries, top):
        starts = progress(range(0, len(self), BLOCK), desc="searching", unit=" blocks", delay=1)
        blocks = ((self.vectors[start:start + BLOCK], range(start, min(start + BLOCK, len(self))))
                  for start in starts)
        return nearest(queries, blocks, top)

    def _near(self, queries, top):
        for query in queries:
            rows = sorted(self.graph.search(query, SEEN * top).keys.tolist())
            yield nearest(query[None], [(self.vectors[rows], rows)], top)[0]

    def _line(self, row):
        begin, end = self.offsets[row:row + 2]
        return bytes(self.text[begin:end - 1]).decode(errors="replace")


def _check(folder, meta, encoder):
    made_by = meta["made_by"]
    other = [name for name, value in encoder.identity.items() if made_by.get(name) != value]
    if other:
        raise UserError(f"{folder}: was made by another run or with other options (different: "
                        f"{', '.join(other)}); search with those, or make another index")
    for name, size in meta["files"].items():
        path = Path(folder, name)
        found = path.stat().st_size if path.exists() else 0
        if found != size:
            raise ValueError(f"{name} has {found:,} bytes, expected {size:,}")
        if "crc32" in meta and checksum(path) != meta["crc32"][name]:    # older ones have none
            raise ValueError(f"{name} is not as it was written")


def build_index(encoder, chunks, folder):
    """Embed lists of lines and keep them in a new folder, whole or not at all; → a report.

    Raises UserError where the folder is there already or cannot be written.
    """
    with new_folder(folder, "choose another folder with --index") as new:
        offsets = array("q", [0])
        with open(new / "lines.txt", "wb") as text:
            blocks = (encoder.encode(lines) for lines in _kept(chunks, text, offsets))
            number = write_rows(new / "vectors.npy", blocks, encoder.dimension)
        np.save(new / "offsets.npy", np.frombuffer(offsets, np.int64))
        how = "each search is exact"
        if number > GRAPH_ABOVE and _usearch():
            _save_graph(np.load(new / "vectors.npy", mmap_mode="r"), new / "graph.usearch")
            how = "a search through its graph is fast but may miss some of the nearest lines"
        files = {path.name: path.stat().st_size for path in new.iterdir()}
        meta = {"made_by": encoder.identity, "files": files,
                "crc32": {name: checksum(new / name) for name in files}}
        write_text(new / "meta.json", json.dumps(meta))
    return f"{number:,} lines; {how}"


def _kept(chunks, text, offsets):
    """The same lists of lines, each written to the file `text` as it passes by."""
    for lines in chunks:
        for line in lines:
            offsets.append(offsets[-1] + text.write(line.encode() + b"\n"))
        yield lines


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
