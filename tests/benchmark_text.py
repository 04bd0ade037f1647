"""How fast is text?  CONVSIM_DATA=DIR python tests/benchmark_text.py RUN

Preparing the Reddit pairs from scratch (read, filter, tokenise, count, encode), and encoding some
of their sentences with a run: text in, vectors out, and what share of it tokenisation takes.
"""

import argparse
import os
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import convsim_mini  # noqa: E402  (from this folder, wherever it is called)
from convsim_mini.config import TextConfig  # noqa: E402
from convsim_mini.data.corpus import load_corpus  # noqa: E402
from convsim_mini.files import read_lines  # noqa: E402
from convsim_mini.model.input_response import embed  # noqa: E402

SENTENCES, ROUNDS = 20_000, 5


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    path = Path(os.environ["CONVSIM_DATA"], "reddit/comment_reply.tsv.gz")
    encoder = convsim_mini.load(parser.parse_args().run)
    with tempfile.TemporaryDirectory() as cache:
        begin = time.perf_counter()
        report = load_corpus([path], TextConfig(), cache).report
        print(f"preparing {2 * report['read']:,} sentences: {time.perf_counter() - begin:.1f} s")
    sentences = [line.decode().split("\t")[0] for line in islice(read_lines(path), SENTENCES)]
    shares = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        packed = encoder.vocabulary.encode(sentences)
        tokenised = time.perf_counter()
        embed(encoder.model, packed)
        shares.append((time.perf_counter() - begin, tokenised - begin))
    whole, text = sorted(shares)[ROUNDS // 2]
    print(f"text in, vectors out: {SENTENCES / whole:,.0f} sentences/s, "
          f"{text / whole:.0%} of it tokenisation; "
          f"ids in, vectors out: {SENTENCES / (whole - text):,.0f}")


if __name__ == "__main__":
    main()
