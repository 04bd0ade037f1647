"""A third of the default corpus and an encoder of some seconds, for the lessons that need them."""

from collections import Counter
from itertools import chain

from lesson import seed
import numpy as np
from tqdm import tqdm

from convsim_mini import minimal
from convsim_mini.config import Config, ModelConfig, OptimConfig, TextConfig
from convsim_mini.core.model import loss_and_gradients
from convsim_mini.core.optim import Adaptive
from convsim_mini.core.batches import Split, batch_order
from convsim_mini.core.loop import rates
from convsim_mini.core.ranking import draw_candidates, precision
from convsim_mini.core.text import Vocabulary, tokenize
from convsim_mini.data.formats import default_corpus
from convsim_mini.data.pairs import left_out, read_rows
from convsim_mini.data.prepare import Corpus
from convsim_mini.data.split import SPLITS, split_pairs
from convsim_mini.data.units import origins_of
from convsim_mini.training.measures import model_ranks
from convsim_mini.training.start import initial_model


def first_pairs(number):
    """The first pairs of chitchat-dataset that pass the paper's filters, as typed: list of Pair."""
    kept = []
    for chunk in tqdm(read_rows(default_corpus()), "reading", disable=None):
        kept += [pair for pair in chunk.pairs if not left_out(pair)]
        if len(kept) >= number:
            break
    return kept


def words_of_chat(pairs, rng):
    """The words of so many pairs, drawn from 42,888, and their gradients in `minimal.py` untrained.

    → ids (N,), dy (N, d) of each word of the batch, word → id
    """
    chat = [[tokenize(text) for text in pair[:2]] for pair in first_pairs(40_000)]
    counts = Counter(word for pair in chat for words in pair for word in words)
    ids = {word: k for k, word in enumerate(counts, start=1)}
    params, _ = minimal.initial_values(counts.values(), rng)
    drawn = [chat[k] for k in rng.choice(len(chat), pairs, replace=False)]
    sentences = [minimal.rows_of(pair[side], ids) for side in (0, 1) for pair in drawn]
    both, (_, (rows, counts, scale), unit_cache) = minimal.encode(params, sentences)
    _, du, dv = minimal.batch_softmax(*np.split(both, 2))
    dx = minimal.l2_normalize_backward(np.concatenate([du, dv]), unit_cache) @ params["W"].T
    return rows, np.repeat(dx * scale, counts, axis=0), ids


def corpus_of(sentences, keys, inside, pieces, counted=None):
    """A Corpus of n pairs.

    sentences: their 2n sentences, lists of tokens; keys: (n, 2) hashes of texts; inside: split →
    numbers of its pairs; pieces: the most that the vocabulary has; counted: numbers of the pairs on
    which it is learned, by default train's
    """
    def sides(which):
        return [sentences[k] for pair in which for k in (2 * pair, 2 * pair + 1)]

    counted = inside["train"] if counted is None else counted
    vocabulary = Vocabulary.of_pieces(Counter(chain.from_iterable(sides(counted))), pieces)
    splits = [Split(*vocabulary.pack(sides(inside[name])), keys[inside[name]]) for name in SPLITS]
    return Corpus(vocabulary, *splits, {}, checksum=0)


def some_chat(pairs, pieces):
    """So many first pairs of chitchat-dataset → Corpus; its report has dev's pairs as typed."""
    kept = first_pairs(pairs)
    sentences = [tokenize(text) for pair in kept for text in pair[:2]]
    origins = origins_of(sentences, [pair.conversation for pair in kept])
    codes = split_pairs(origins).codes
    inside = {name: np.flatnonzero(codes == code) for code, name in enumerate(SPLITS)}
    return corpus_of(sentences, origins.keys, inside, pieces)._replace(
        report={"dev": [kept[k][:2] for k in inside["dev"]]})


def small_config(pieces, model=ModelConfig(embedding_dim=100, layers=[200])):
    """The `chat` preset with vectors of 200 numbers; in 138 steps of 256, each pair comes once."""
    return Config(text=TextConfig(pieces=pieces), model=model,
                  optim=OptimConfig(batch_size=256, learning_rate=1e-3), steps=138, seed=seed(14))


def train(model, config, corpus, task="replies"):
    """Train a model in place, on all pairs in each epoch → the loss of each step."""
    optimizer, losses = Adaptive(model.params), []
    order = batch_order(corpus.train.pairs, config.optim.batch_size, config.seed)
    for step, which in zip(tqdm(range(config.steps), "training", disable=None), order):
        loss, grads = loss_and_gradients(model, corpus.train.batch(which)._replace(task=task))
        optimizer.step(model.params, grads, *rates(config.optim, step, config.steps, len(which)))
        losses.append(float(loss))
    return losses


def p_at_1(model, split):
    """How often the true reply is the first of 100, per cent of 1,500 pairs of a split."""
    return precision(model_ranks(model, split, *draw_candidates(split, 1_500)), 1)


def trained_encoder(pairs=40_000, pieces=8_000):
    """Lesson 18's run → its Corpus, the Model before and after training, the last batch's loss."""
    corpus, config = some_chat(pairs, pieces), small_config(pieces)
    untrained, trained = initial_model(config, corpus), initial_model(config, corpus)
    return corpus, untrained, trained, train(trained, config, corpus)[-1]
