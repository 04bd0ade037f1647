"""This package beside what a user would pick instead: sentence-transformers' static embeddings.

    pip install sentence-transformers datasets accelerate
    python tests/benchmarks/benchmark_peer.py [PAIRS …] --data DIR --epochs 1 2 --peer-epochs 1 2

Both train on the same pairs and answer the same test inputs, each among the same 100 replies. They
take turns, each training in a process of its own. Without PAIRS: the default corpus. DIR holds
stsbenchmark/; sts-test.csv is not read. The peer has the settings of its own documentation for such
models: a WordPiece tokenizer of the same text, AdamW at 0.2, a warm-up of a tenth, linear decay.
Its tokenizer has 30,000 pieces, then as many as ours.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import contenders  # noqa: F401  (it makes the repository's folders known)
from convsim_mini.common.show import table
from convsim_mini.core.ranking import candidate_scores, precision, true_ranks
from convsim_mini.core.text import tokenize
from convsim_mini.data.pairs import left_out, read_rows
from convsim_mini.data.split import SPLITS, split_pairs
from convsim_mini.data.units import Origins, origins_of
from convsim_mini.evaluation import response, sts
from convsim_mini import load
from convsim_mini.training.options import config_of, parse
from convsim_mini.training.run import LOG, read_log
from convsim_mini.data.prepare import open_corpus
from convsim_mini.data.formats import default_corpus

BATCH, NUMBERS = 1_024, 500


def arguments(options, seed):
    """The settings of our run as the command `train` takes them."""
    pairs = ["--pairs", *options.pairs] if options.pairs else []
    return [*pairs, "--data", str(options.data), "--seed", str(seed)]


def texts_of(paths):
    """The pairs of texts that the filters keep, by split, in the order of the prepared corpus."""
    kept, origins = [], []
    for file, path in enumerate(paths or [default_corpus()]):
        for part in read_rows(path):
            pairs = [pair for pair in part.pairs if not left_out(pair)]
            sentences = [tokenize(text) for pair in pairs for text in pair[:2]]
            origins.append(origins_of(sentences, [pair.conversation for pair in pairs], file))
            kept += pairs
    codes = split_pairs(Origins(*map(np.concatenate, zip(*origins)))).codes
    return {split: [kept[k][:2] for k in np.flatnonzero(codes == code)]
            for code, split in enumerate(SPLITS)}


def ours(options, seed, epochs, folder):
    """Train by the command; → the seconds in its steps, functions from texts to vectors."""
    command = [sys.executable, "-m", "convsim_mini.train", *arguments(options, seed), "--epochs",
               str(epochs), "--run", f"{folder}/run"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = [one["seconds"] for one in read_log(Path(folder, "run", LOG)) if "seconds" in one]
    encoder = load(f"{folder}/run")
    return seconds[-1], encoder.encode, lambda texts: encoder.encode(texts, as_responses=True)


def peer(options, seed, epochs, folder):
    """The same of a StaticEmbedding, trained by MultipleNegativesRankingLoss."""
    import torch
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments)
    from sentence_transformers.losses import MultipleNegativesRankingLoss
    from sentence_transformers.models import StaticEmbedding
    from tokenizers.implementations import BertWordPieceTokenizer

    torch.manual_seed(seed)
    inputs, replies = zip(*texts_of(options.pairs)["train"])
    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator([*inputs, *replies], vocab_size=options.peer_pieces[0],
                                  show_progress=False)
    embedding = StaticEmbedding(tokenizer._tokenizer, embedding_dim=NUMBERS)
    torch.nn.init.normal_(embedding.embedding.weight)
    model = SentenceTransformer(modules=[embedding], device="cpu")
    settings = SentenceTransformerTrainingArguments(
        folder, num_train_epochs=epochs, per_device_train_batch_size=BATCH, learning_rate=0.2,
        warmup_steps=0.1, lr_scheduler_type="linear", seed=seed, use_cpu=True, report_to="none",
        save_strategy="no", logging_strategy="no", disable_tqdm=True)
    trainer = SentenceTransformerTrainer(
        model, settings, Dataset.from_dict({"anchor": inputs, "positive": replies}),
        loss=MultipleNegativesRankingLoss(model))
    begin = time.perf_counter()
    trainer.train()
    seconds = time.perf_counter() - begin

    def encode(texts):
        return model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    return seconds, encode, encode


def measured(options, name, seed, epochs):
    """Train one contender in this process; → its figures."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        seconds, encode, encode_responses = globals()[name](options, seed, epochs, folder)
        whole = time.perf_counter() - begin
        usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF,
                                                     resource.RUSAGE_CHILDREN)]
        config = config_of(parse(arguments(options, seed)))
        pairs, candidates = response.drawn(open_corpus(config).test)
        texts = texts_of(options.pairs)["test"]
        u, v = encode([texts[k][0] for k in pairs]), encode_responses([texts[k][1] for k in pairs])
        found = sts.find(options.data)
        dev, genres = (sts.figures(data, sts.scores(None, data, encode)["trained, as cosine"])
                       for data in (sts.read(found["dev"]), sts.read(found[sts.GENRES])))
    return {"P@1": precision(true_ranks(candidate_scores(u, v, candidates)), 1),
            "STS dev": dev["r"][0], "captions": dev["captions"][0], "forums": dev["forums"][0],
            "news": dev["news"][0], "three genres": genres["mean r"][0],
            "seconds in steps": seconds,
            "whole": whole, "of processor": sum(one.ru_utime + one.ru_stime for one in usage),
            "GB": max(one.ru_maxrss for one in usage) / 1e6}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="*")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=float, nargs="*", default=[2])
    parser.add_argument("--peer-epochs", type=float, nargs="*", default=[1, 2, 3, 4])
    parser.add_argument("--peer-pieces", type=int, nargs="+", default=[30_000, 8_000])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, seed, epochs = options.one
        return print(json.dumps(measured(options, name, int(seed), float(epochs))))
    open_corpus(config_of(parse(arguments(options, 1))))      # prepared once, before any clock
    rows = []
    for seed in options.seeds:
        turns = [("ours", "ours", options.peer_pieces[0], epochs) for epochs in options.epochs]
        turns += [("peer", f"peer, {pieces} pieces", pieces, epochs)
                  for pieces in options.peer_pieces for epochs in options.peer_epochs]
        for name, shown, pieces, epochs in turns:
            command = [sys.executable, *sys.argv, "--peer-pieces", str(pieces),
                       "--one", name, str(seed), str(epochs)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            figures = json.loads(done.stdout.splitlines()[-1])
            rows.append([f"{shown}, epochs {epochs:g}, seed {seed}",
                         *(f"{figure:.1f}" for figure in figures.values())])
            print(*rows[-1], flush=True)
    print(table(["", *figures], rows))


if __name__ == "__main__":
    main()
