"""A third of the default corpus and an encoder of some seconds, for the lessons that need them."""

from collections import Counter

from lesson import seed
import numpy as np
from tqdm import tqdm

from convsim_mini.config import Config, ModelConfig, OptimConfig, TextConfig
from convsim_mini.core.model import loss_and_gradients
from convsim_mini.core.optim import Adaptive
from convsim_mini.core.pairs import Split, batch_order
from convsim_mini.core.schedule import rates
from convsim_mini.core.text import Vocabulary, tokenize
from convsim_mini.data.corpus import SPLITS, Corpus, split_of, text_key
from convsim_mini.data.pairs import read_rows, removed_by
from convsim_mini.data.formats import default_corpus
from convsim_mini.training.initial import initial_model


def some_chat(pairs, pieces):
    """The first pairs of chitchat-dataset that pass the paper's filters.

    pairs: how many; pieces: the most that the vocabulary has, learned on train alone → Corpus
    """
    sentences, keys = {name: [] for name in SPLITS}, {name: [] for name in SPLITS}
    for chunk in tqdm(read_rows(default_corpus()), "reading", disable=None):
        for pair in chunk.pairs:
            if not (removed_by(pair.input) or removed_by(pair.response)):
                sides = [tokenize(pair.input), tokenize(pair.response)]
                pair_keys = [text_key(" ".join(tokens)) for tokens in sides]
                split = split_of(pair_keys[0])    # all replies to one input fall into one split
                sentences[split] += sides
                keys[split].append(pair_keys)
        if sum(map(len, keys.values())) >= pairs:
            break
    counts = Counter(token for tokens in sentences["train"] for token in tokens)
    vocabulary = Vocabulary.of_pieces(counts, pieces)
    splits = [Split(*vocabulary.pack(sentences[name]), np.array(keys[name], np.uint64))
              for name in SPLITS]
    return Corpus(vocabulary, *splits, report={}, checksum=0)


def small_config(pieces):
    """The `chat` preset with vectors of 200 numbers; 144 steps of 256: 36,861 pairs come once."""
    return Config(text=TextConfig(pieces=pieces, bigram_buckets=20_000),
                  model=ModelConfig(embedding_dim=100, layers=[200]),
                  optim=OptimConfig(batch_size=256, learning_rate=1e-3), steps=144, seed=seed(14))


def trained_encoder(pairs=40_000, pieces=8_000):
    """Lesson 18's run → its Corpus, the Model before and after training, the last batch's loss."""
    corpus, config = some_chat(pairs, pieces), small_config(pieces)
    untrained, trained = initial_model(config, corpus), initial_model(config, corpus)
    optimizer = Adaptive(trained.params)
    order = batch_order(corpus.train.pairs, config.optim.batch_size, config.seed)
    for step, which in zip(tqdm(range(config.steps), "training", disable=None), order):
        loss, grads = loss_and_gradients(trained, corpus.train.batch(which))
        optimizer.step(trained.params, grads, *rates(config.optim, step, config.steps, len(which)))
    return corpus, untrained, trained, float(loss)


def held_out_pairs(corpus):
    """The dev pairs of `some_chat`'s Corpus as they were typed: list of (message, reply)."""
    held_out = []
    for chunk in read_rows(default_corpus()):
        held_out += [(pair.input, pair.response) for pair in chunk.pairs
                     if split_of(text_key(" ".join(tokenize(pair.input)))) == "dev"
                     and not (removed_by(pair.input) or removed_by(pair.response))]
        if len(held_out) >= corpus.dev.pairs:
            return held_out[:corpus.dev.pairs]
