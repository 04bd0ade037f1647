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
from convsim_mini.data.corpus import Corpus
from convsim_mini.data.formats import default_corpus
from convsim_mini.data.pairs import left_out, read_rows
from convsim_mini.data.passes import origins_of
from convsim_mini.data.split import SPLITS, split_pairs
from convsim_mini.training.start import initial_model


def some_chat(pairs, pieces):
    """The first pairs of chitchat-dataset that pass the paper's filters, split by conversations.

    pairs: how many; pieces: the most that the vocabulary has, learned on train alone → Corpus,
    whose report holds the pairs of dev as they were typed
    """
    kept = []
    for chunk in tqdm(read_rows(default_corpus()), "reading", disable=None):
        kept += [pair for pair in chunk.pairs if not left_out(pair)]
        if len(kept) >= pairs:
            break
    sentences = [tokenize(text) for pair in kept for text in pair[:2]]
    origins = origins_of(sentences, [pair.conversation for pair in kept])
    names = split_pairs(origins).names
    inside = {name: np.flatnonzero(names == name) for name in SPLITS}
    sides = {name: [sentences[k] for pair in which for k in (2 * pair, 2 * pair + 1)]
             for name, which in inside.items()}
    counts = Counter(token for tokens in sides["train"] for token in tokens)
    vocabulary = Vocabulary.of_pieces(counts, pieces)
    splits = [Split(*vocabulary.pack(sides[name]), origins.keys[inside[name]]) for name in SPLITS]
    return Corpus(vocabulary, *splits, {"dev": [kept[k][:2] for k in inside["dev"]]}, checksum=0)


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
