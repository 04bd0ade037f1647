"""How costs grow: rows of an index, texts in a batch, beside other libraries; pairs of a corpus.

    python tests/benchmarks/curves.py RUN [--rows 100000 1000000] [--peers]
    python tests/benchmarks/curves.py RUN --rows --pairs 500000 2000000

Each contender is a process of its own, with one thread, and they take turns. Times are those of the
processor, so that other work on the machine does not count. Memory is the process's own, without
files that are mapped. Rows are texts of the default corpus, each with one word of another. Peers,
if installed: faiss-cpu (with our vectors), bm25s, model2vec (with random vectors).
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
QUERIES = 200
EACH = f"of {QUERIES} at once, ms each"
BATCHES = 1, 32, 10_000


def texts(number):
    """Sentences of the default corpus, each with one word of another."""
    from chitchat_dataset import MessageDataset
    some = [text.split() for text in MessageDataset() if len(text) < 200 and text.split()]
    rng = np.random.default_rng(0)
    for one, other in rng.integers(len(some), size=(number, 2)):
        words = [*some[one]]
        words[rng.integers(len(words))] = some[other][rng.integers(len(some[other]))]
        yield " ".join(words)


def seconds(work, times=1):
    """Processor seconds of work(), the median of several."""
    taken = []
    for _ in range(times):
        before = time.process_time()
        work()
        taken.append(time.process_time() - before)
    return float(np.median(taken))


def megabytes(what, process="self"):
    """A line of /proc/self/status, such as "RssAnon": a process's memory."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    return int(status[what].split()[0]) / 1024


# ---------------------------------------------------------------- contenders, each in its process

def ours(run, lines, folder):
    """An index in a folder, made before: opened and searched."""
    import convsim_mini
    from convsim_mini.inference.stored import open_index
    encoder = convsim_mini.load(run)
    encoder.encode(["warm up"])
    begin, found = megabytes("RssAnon"), {}
    queries, opened = lines[:QUERIES], []
    found["open, s"] = seconds(lambda: opened.append(open_index(folder, encoder)))
    found["memory of it, MB"] = megabytes("RssAnon") - begin
    index, = opened
    index.search(queries[:1])
    found["one query, ms"] = 1_000 * seconds(lambda: index.search(queries[:1]), 15)
    found["by meaning alone, ms"] = 1_000 * seconds(lambda: index.search(queries[:1], words=0), 15)
    before = megabytes("VmHWM")
    found[EACH] = 1_000 * seconds(lambda: index.search(queries)) / QUERIES
    found["peak beyond that, MB"] = megabytes("VmHWM") - before
    return found


def building(run, lines, folder):
    """The same index made from a file of lines."""
    from convsim_mini import encode
    (path := folder.with_suffix(".txt")).write_text("\n".join(lines), encoding="utf-8")
    return {"build, s": seconds(lambda: encode.main([run, "--file", str(path),
                                                     "--index", str(folder)]))}


def faiss(run, lines, folder):
    """An exact search of our vectors, by meaning alone."""
    import faiss
    import convsim_mini
    encoder, index = convsim_mini.load(run), faiss.IndexFlatIP(500)
    vectors = encoder.encode(lines)
    found = {"build, s": seconds(lambda: index.add(vectors))}
    found["by meaning alone, ms"] = 1_000 * seconds(lambda: index.search(vectors[:1], 10), 15)
    found[EACH] = 1_000 * seconds(lambda: index.search(vectors[:QUERIES], 10)) / QUERIES
    return found


def bm25s(run, lines, folder):
    """A search by words alone."""
    import bm25s
    index = bm25s.BM25()
    found = {"build, s": seconds(lambda: index.index(bm25s.tokenize(lines, show_progress=False),
                                                     show_progress=False))}

    def search(queries):
        index.retrieve(bm25s.tokenize(queries, show_progress=False), k=10, show_progress=False)
    found["one query, ms"] = 1_000 * seconds(lambda: search(lines[:1]), 15)
    found[EACH] = 1_000 * seconds(lambda: search(lines[:QUERIES])) / QUERIES
    return found


def batches(encode, lines):
    """Milliseconds for a batch of each size, and the longest of 30 for the small ones."""
    encode(lines[:100])
    return {f"{size:,} texts, ms": 1_000 * seconds(lambda: encode(lines[:size]),
                                                   30 if size < 100 else 3) for size in BATCHES}


def encoding(run, lines, folder):
    """`load(run).encode`, with as many threads of BLAS as there are cores."""
    import convsim_mini
    return batches(convsim_mini.load(run).encode, lines)


def model2vec(run, lines, folder):
    """The same number of pieces and dimensions."""
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(lines, trainers.WordPieceTrainer(
        vocab_size=8_000, special_tokens=["[UNK]", "[PAD]"], show_progress=False))
    shape = tokenizer.get_vocab_size(), 500
    vectors = np.random.default_rng(0).standard_normal(shape, np.float32)
    return batches(StaticModel(vectors, tokenizer).encode, lines)


def preparing(run, lines, folder):
    """Pairs of these lines, ten to a conversation, prepared; then ten steps.

    Memory: the training's own, the most of what is seen ten times a second.
    """
    with open(path := folder / "pairs.jsonl", "w", encoding="utf-8") as file:
        for k, pair in enumerate(zip(lines[::2], lines[1::2])):
            row = dict(zip(("input", "response", "conversation_id"), (*pair, str(k // 10))))
            file.write(json.dumps(row) + "\n")
    command = [sys.executable, "-m", "convsim_mini.train", "--pairs", path, "--run", folder / "run",
               "--cache", folder / "cache", "--steps", "10", "--evaluations", "1"]
    before, most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, 0
    with subprocess.Popen([*map(str, command)], stdout=subprocess.DEVNULL) as child:
        while child.poll() is None:
            with suppress(OSError, ValueError, KeyError):     # it has ended
                most = max(most, megabytes("RssAnon", child.pid))
            time.sleep(0.1)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return {"memory, MB": most, "all processes, s": used}


# ---------------------------------------------------------------- the command

def show(title, names, run, rows, folder):
    """Run contenders, each in a process of its own, and print what they took."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for other in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        env.pop(other, None)
    found = {}
    for name in names:
        done = subprocess.run([sys.executable, __file__, run, "--work", name, str(rows), folder],
                              env=env | (ONE_THREAD if name != "encoding" else {}),
                              stdout=subprocess.PIPE, text=True)
        if done.returncode == 0:
            found |= json.loads(done.stdout.splitlines()[-1])
    print(title, {what: round(value, 2) for what, value in found.items()}, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run")
    parser.add_argument("--rows", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--pairs", type=int, nargs="+", default=[])
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        name, rows, folder = options.work
        print(json.dumps(globals()[name](options.run, [*texts(int(rows))], Path(folder))))
        return
    for rows in options.rows:
        print(f"\n{rows:,} rows")
        with tempfile.TemporaryDirectory() as folder:
            for turn in (1, 2):
                show("ours", ["building", "ours"], options.run, rows, f"{folder}/{turn}")
            for peer in ("faiss", "bm25s") if options.peers else ():
                show(peer, [peer], options.run, rows, folder)
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory() as folder:
            show(f"{pairs:,} pairs:", ["preparing"], options.run, 2 * pairs, folder)
    for name in ["encoding", *["model2vec"] * options.peers] if options.rows else ():
        show(name, [name], options.run, BATCHES[-1], ".")


if __name__ == "__main__":
    main()
