"""How good a model is on pairs: P@N (see core/ranking.py), the loss, and NLI's accuracy."""

import numpy as np

from ..common.cli import user_errors
from ..core.arrays import array_module, to_device, to_host
from ..core.losses import loss_of
from ..core.model import TABLE, embed, respond
from ..core.multitask import classifier_forward
from ..core.ranking import N, candidate_scores, draw_candidates, precision, settled, true_ranks
from ..fast.host import product

QUERIES, DEV_QUERIES = 10_000, 5_000    # of test, and of dev


def measuring_dev(config, corpus, tasks):
    """A function of a Model → its P@N, its loss and NLI's accuracy on dev.

    The loss is the mean over batches of dev, as large as in training if dev has enough pairs.
    """
    pairs, candidates = drawn(corpus.dev, DEV_QUERIES)
    size = min(config.optim.batch_size, len(pairs))
    order = np.random.Generator(np.random.Philox(config.seed)).permutation(len(pairs))
    batches = order[:len(order) // size * size].reshape(-1, size)

    def measure(model):
        xp = array_module(model.params[TABLE])
        u, v_prime = vectors(model, corpus.dev, pairs)
        ranks = ranks_of_truth(u, v_prime, candidates)
        loss, _ = loss_of(model.config)
        losses = [float(loss(*to_device((u[some], v_prime[some]), xp))[0]) for some in batches]
        record = {f"dev_p{n}": round(precision(ranks, n), 2) for n in N}
        record["dev_loss"] = round(float(np.mean(losses)), 4)
        if tasks.nli_dev:
            right = classify(model, tasks.nli_dev) == tasks.nli_dev.labels
            record["nli"] = round(100 * float(right.mean()), 2)
        return record

    return measure


def scores_on_dev(config, measured):
    """Step → P@1, plus NLI's accuracy if the Config's model learns it, too."""
    return {record["step"]: record["dev_p1"] + (record["nli"] if config.classifies else 0)
            for record in measured}


def drawn(split, queries=QUERIES):
    """`draw_candidates` of core/ranking.py; a UserError if there are too few pairs."""
    with user_errors("the pairs", "give --pairs more conversations", ValueError):
        return draw_candidates(split, queries)


def model_ranks(model, split, pairs, candidates):
    """The `ranks_of_truth` of a model for pairs (n,) of a split."""
    return ranks_of_truth(*vectors(model, split, pairs), candidates)


def ranks_of_truth(queries, responses, candidates):
    """`true_ranks` by dot products of arrays or sparse matrices; candidates: (n, 100) → (n,)."""
    return true_ranks(candidate_scores(queries, responses, candidates, dot_products))


def dot_products(left, right):
    """All dot products of the rows of two arrays, or of two sparse matrices: dense, (n, m)."""
    dense = isinstance(left, np.ndarray)
    return product(left, right.T) if dense else (left @ right.T).toarray()


def vectors(model, split, pairs):
    """u of the inputs and v′ of the responses of pairs (n,) of a split: (n, e) each."""
    u, v = (embed(model, packed) for packed in sides(split, pairs))
    return u, respond(model, v)


def sides(split, pairs):
    """The inputs and the responses of pairs (n,) of a split: Packed of n each."""
    return split.sentences(2 * pairs), split.sentences(2 * pairs + 1)


def classify(model, split):
    """The class of every pair of a Split of NLI: int (n,) on the host, indices into LABELS."""
    xp = array_module(model.params[TABLE])
    u = xp.asarray(embed(model, split.packed))                                  # (2n, e)
    logits, _ = classifier_forward(model, u[0::2], u[1::2])                     # (n, 3)
    return np.argmax(settled(to_host(logits)), axis=1)
