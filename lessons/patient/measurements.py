"""What may be asked of a run. Each is a function: Run → label → number or text."""

import numpy as np

from convsim_mini.config import ModelConfig
from convsim_mini.core import dan
from convsim_mini.core.gradcheck import dense, numeric_gradient, relative_error
from convsim_mini.core.layers import linear_forward, tanh_forward
from convsim_mini.core.losses import batch_softmax_forward
from convsim_mini.core.model import TABLE, Model, embed, loss_and_gradients
from convsim_mini.core.packed import Packed, frequent_bigrams, words_and_bigrams
from convsim_mini.core.batches import Batch
from convsim_mini.core.ranking import draw_candidates, precision
from convsim_mini.evaluation.baselines import fitted_on_train
from convsim_mini.training.measures import ranks_of_truth, sides
from convsim_mini.inference.tfidf import tfidf
from convsim_mini.core.initial import initial_parameters

from .training import K, NAMES, STEPS, scores_of, touched, update_ratios, vectors

QUERIES = 1_000    # of P@1


def steps(run):
    """‖Δp‖/‖p‖ of each parameter, in the first step and in the last."""
    return {f"{name}, {when} step": ratio for when, step in (("first", 0), ("last", STEPS - 1))
            for name, ratio in update_ratios(run, step).items()}


def direction(run):
    """Cosine between the first step and the gradient's opposite; downhill is above 0."""
    found = {}
    for name, rows in touched(run, 0).items():
        old, new = (run.copies[step][NAMES[name]] for step in (0, 1))
        down, moved = -dense(run.grads[0][NAMES[name]], old)[rows], (new - old)[rows]
        size = np.linalg.norm(down) * np.linalg.norm(moved)
        found[name] = (down * moved).sum() / size if size else 0.0
    return found


def gradients(run):
    """A gradient check of a tiny model: error, and length over the numeric gradient's length."""
    rng = np.random.default_rng(run.config.seed)
    config = ModelConfig(embedding_dim=4, layers=[4, 3], scale=2.0, start="random")
    table = rng.standard_normal((12, 4))                      # 8 words, 4 rows of bigrams
    params = {name: p.astype(float) for name, p in initial_parameters(config, table, rng).items()}
    ids = rng.integers(0, 8, 40).astype(np.int32)             # six pairs; words repeat
    ends = np.sort(rng.choice(np.arange(1, 40), 11, replace=False))
    batch = Batch(Packed(ids, np.array([0, *ends, 40])))
    model = Model(params, config, 8, frequent_bigrams(batch.sentences, 8, 4))
    _, grads = loss_and_gradients(model, batch)
    found = {}
    for name, full in NAMES.items():
        ours = dense(grads[full], params[full])
        numeric = numeric_gradient(lambda: float(loss_and_gradients(model, batch)[0]), params[full])
        found[f"{name}, relative error"] = relative_error(ours, numeric)
        found[f"{name}, length ratio"] = np.linalg.norm(ours) / np.linalg.norm(numeric)
    return found


def scores(run):
    """The scores of the last batch: the least, the largest, and a true reply's mean."""
    found = scores_of(run.model, run.batches[-1])
    return {"least": found.min(), "largest": found.max(), "true, mean": found.diagonal().mean()}


def evaluated(run, model, split, pairs):
    """u and v′ of pairs (n,) of a split, by the evaluation's code."""
    read = [packed._replace(ids=run.parts.read(run.corpus.vocabulary, packed.ids))
            for packed in sides(split, pairs)]
    return run.parts.vectors(model, *read)


def p1(run):
    """P@1 among 100 by the evaluation's code, per cent; guessing has 1."""
    found = {}
    for name, split, step in (("train", run.corpus.train, STEPS), ("dev", run.corpus.dev, STEPS),
                              ("dev, untrained", run.corpus.dev, 0)):
        pairs, candidates = draw_candidates(split, QUERIES)
        both = evaluated(run, run.model_at(step), split, pairs)
        found[name] = precision(ranks_of_truth(*both, candidates), 1)
    return found


def words(run):
    """P@1 among 100 by the words in common (TF-IDF), without a model, per cent."""
    found, size = {}, run.corpus.vocabulary.size
    fitted = fitted_on_train(run.corpus.train, size)
    for name, split in (("train", run.corpus.train), ("dev", run.corpus.dev)):
        pairs, candidates = draw_candidates(split, QUERIES)
        both = [tfidf(packed, *fitted) for packed in sides(split, pairs)]
        found[name] = precision(ranks_of_truth(*both, candidates), 1)
    return found


def split(run):
    """Pairs of train and dev; how many of all are different; dev's texts that train has."""
    train, dev = run.corpus.train, run.corpus.dev
    pairs = np.concatenate([train.keys, dev.keys])
    long = dev.keys.ravel()[dev.packed.lengths > 4]
    return {"train": train.pairs, "dev": dev.pairs,
            "different, per cent": 100 * len(np.unique(pairs, axis=0)) / len(pairs),
            "dev's long texts in train, per cent": 100 * np.isin(long, train.keys).mean()}


def batch(run):
    """Words of a message; different replies and different texts of a batch (of 128, of 256)."""
    lengths = [one.sentences.part(0, K).lengths.mean() for one in run.batches]
    texts = [[one.sentences.part(b, b + 1).ids.tobytes() for b in range(2 * K)]
             for one in run.batches[:10]]
    return {"words, least mean of a batch": min(lengths), "words, largest mean": max(lengths),
            "different replies": np.mean([len(set(some[K:])) for some in texts]),
            "different texts": np.mean([len(set(some)) for some in texts])}


def vocabulary(run):
    """How many pieces of words have an id, and the share that stands inside words, per cent."""
    inside = np.array([False, *(piece[:2] == "##" for piece in run.corpus.vocabulary.pieces)])
    return {"pieces": len(inside) - 1, **{
        f"inside words in {name}": 100 * inside[some.ids].mean()
        for name, some in (("train", run.corpus.train), ("dev", run.corpus.dev))}}


def ids(run):
    """Ids of some words, in training and as the evaluation reads them."""
    vocabulary = run.corpus.vocabulary
    known = np.arange(1, vocabulary.size, dtype=np.int32)
    read = run.parts.read(vocabulary, known)
    shown = {f"“{word}”": f"{vocabulary.ids[word]}, {read[vocabulary.ids[word] - 1]}"
             for word in ("you", "movie", "music") if word in vocabulary.ids}
    return {**shown, "agree, per cent": 100 * (read == known).mean()}


def evaluation(run):
    """The evaluation's loss of 128 pairs of dev; how far off others are (′: response network)."""
    pairs, model = np.arange(K), run.model
    both = sides(run.corpus.dev, pairs)

    def loss(u, v):
        return float(batch_softmax_forward(u, v, run.config.model.scale)[0])

    found = loss(*evaluated(run, model, run.corpus.dev, pairs))
    others = {"u · v′": vectors(model, *both), "v · u′": vectors(model, *both[::-1]),
              "u · v": [embed(model, side) for side in both]}
    return {"the evaluation's": found,
            **{f"by {name}, off by": abs(found - loss(*two)) for name, two in others.items()}}


def layers(run):
    """The length of vectors before training: the bags of short and long sentences; each layer."""
    params, sentences = run.copies[0], run.batches[0].sentences
    rows = words_and_bigrams(sentences, run.model.word_rows, run.model.bigrams)
    bag, _ = dan.embedding_bag_forward(params[TABLE], rows, sentences.lengths)
    first, _ = linear_forward(bag, params[NAMES["first layer"]], params["encoder.linear0.bias"])
    hidden, _ = tanh_forward(first)
    last, _ = linear_forward(hidden, params[NAMES["second layer"]])
    size, count = np.linalg.norm(bag, axis=1), sentences.lengths
    return {"bag, 1 to 5 words": size[count <= 5].mean(),
            "bag, 20 or more": size[count > 19].mean(),
            **{name: np.linalg.norm(x, axis=1).mean() for name, x in (
                ("after the first layer", first), ("after tanh", hidden), ("at the end", last))}}


def read(run):
    """Five pairs of the first batch as text."""
    token, one = run.corpus.vocabulary.token, run.batches[0].sentences
    texts = [" ".join(map(token, one.part(b, b + 1).ids)).replace(" ##", "") for b in range(2 * K)]
    return {f"{k + 1}": f"{texts[k]}  →  {texts[K + k]}" for k in range(5)}


MEASUREMENTS = {function.__name__: function for function in (
    steps, direction, gradients, scores, p1, words, split, batch, vocabulary, ids, evaluation,
    layers, read)}


def measure(run, name):
    """One measurement of a run: label → number or text."""
    with run.parts.inside():
        return MEASUREMENTS[name](run)
