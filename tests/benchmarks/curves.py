"""How costs grow: rows of an index; texts in a batch, beside model2vec (with random vectors).

    python tests/benchmarks/curves.py RUN [--rows 100000 1000000]

Each contender is a process of its own, with one thread, and they take turns. Times are those of the
processor, so that other work on the machine does not count. Memory is the process's own, without
files that are mapped. Rows are texts of the default corpus, each with one word of another.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
QUERIES = 200
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


def megabytes(what):
    """A line of /proc/self/status, such as "RssAnon": this process's memory."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[what].split()[0]) / 1024


# ---------------------------------------------------------------- contenders, each in its process

def searching(run, lines, folder):
    """An index in a folder, made before: opened and searched."""
    import convsim_mini
    from convsim_mini.inference.index import open_index
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
    at_once = 1_000 * seconds(lambda: index.search(queries))
    found[f"of {QUERIES} at once, ms each"] = at_once / QUERIES
    found["peak beyond that, MB"] = megabytes("VmHWM") - before
    return found


def building(run, lines, folder):
    """The same index made from a file of lines."""
    from convsim_mini import encode
    (path := folder.with_suffix(".txt")).write_text("\n".join(lines), encoding="utf-8")
    return {"build, s": seconds(lambda: encode.main([run, "--file", str(path),
                                                     "--index", str(folder)]))}


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


# ---------------------------------------------------------------- the command

def in_its_own_process(name, run, rows, folder):
    """What a contender measures, printed; nothing but its traceback if it fails."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **(ONE_THREAD if name != "encoding" else {})}
    for other in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        env.pop(other, None)
    subprocess.run([sys.executable, __file__, run, "--work", name, str(rows), folder], env=env)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        name, rows, folder = options.work
        found = globals()[name](options.run, [*texts(int(rows))], Path(folder))
        print(rows, name, {what: round(value, 2) for what, value in found.items()}, flush=True)
        return
    for turn in (1, 2):
        for rows in options.rows:
            with tempfile.TemporaryDirectory() as folder:
                for name in ("building", "searching"):
                    in_its_own_process(name, options.run, rows, f"{folder}/index")
        for name in ("encoding", "model2vec"):
            in_its_own_process(name, options.run, BATCHES[-1], ".")


if __name__ == "__main__":
    main()
