"""Tune a run for STS: one matrix on top of its embeddings (the paper's §4.3).

    python -m convsim_mini.tune RUN --data DIR
"""

from itertools import product

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from .cli import errors_in_one_line, progress
from .evaluation import sts
from .evaluation.command import parser_of
from .evaluation.metrics import pearson, williams_test
from .model import losses
from .model.input_response import embed
from .run import load_run, save_matrix
from .tables import table

FOLDS = 5
STRENGTHS = (3.0, 1.0, 0.3, 0.1)
ITERATIONS = 12    # held-out r falls after two to six


def loss_and_gradient(matrix, u1, u2, labels, strength):
    """1 − r + strength · ‖M − I‖²/e and its gradient. The strength holds M near the identity.

    Pearson's r itself is maximised. The score 5 (1 − arccos(c)/π) of cosines above 0 spans only
    2.5 … 5, so its squared distance from labels 0 … 5 would pull all sentences apart.
    """
    similarity, similarity_cache = losses.similarity_forward(matrix, u1, u2)
    r, r_cache = losses.correlation_forward(similarity, labels)
    away = matrix - np.eye(len(matrix))
    loss = 1 - r + strength * (away * away).sum() / len(matrix)
    gradient = losses.similarity_backward(losses.correlation_backward(-1, r_cache),
                                          similarity_cache)
    return loss, gradient + 2 * strength / len(matrix) * away


def fit(u1, u2, labels, strength, iterations, watch=lambda matrix: None):
    """The matrix after so many iterations of L-BFGS from the identity; watch(matrix) sees each."""
    e = u1.shape[1]

    def flat(m):
        loss, gradient = loss_and_gradient(m.reshape(e, e), u1, u2, labels, strength)
        return loss, gradient.ravel()
    return minimize(flat, np.eye(e).ravel(), jac=True, method="L-BFGS-B",
                    callback=lambda m: watch(m.reshape(e, e)),
                    options={"maxiter": iterations, "maxcor": 10}).x.reshape(e, e)


def groups_of(pairs):
    """Group numbers: (n,), of an Sts's pairs. Pairs linked by shared sentences have the same."""
    _, sentences = np.unique([*pairs.sentences1, *pairs.sentences2], return_inverse=True)
    one, two = sentences.reshape(2, -1)
    graph = coo_matrix((np.ones(len(one)), (one, two)), shape=(sentences.max() + 1,) * 2)
    return connected_components(graph, directed=False)[1][one]


def cross_validate(u1, u2, labels, groups):
    """Mean r on held-out folds, no group in two: (strengths, iterations) after each iteration."""
    fold = np.random.Generator(np.random.Philox(0)).integers(FOLDS, size=groups.max() + 1)[groups]
    scores = np.zeros((len(STRENGTHS), ITERATIONS))
    for s, held in progress([*product(range(len(STRENGTHS)), range(FOLDS))], "cross-validating"):
        train, test, seen = fold != held, fold == held, []
        watch = lambda matrix: seen.append(pearson(
            losses.similarity_forward(matrix, u1[test], u2[test])[0], labels[test]))
        fit(u1[train], u2[train], labels[train], STRENGTHS[s], ITERATIONS, watch)
        seen += seen[-1:] * (ITERATIONS - len(seen))                      # it had converged
        scores[s] += np.array(seen) / FOLDS
    return scores


@errors_in_one_line()
def main(argv=None):
    """The command: learn and cross-validate on STS train without dev's pairs, look at dev once."""
    parser = parser_of("tune", __doc__, help="the run's folder, into which tuned.safetensors is "
                       "written", data="folder with the STS Benchmark's sts-train.csv and "
                       "sts-dev.csv, or with stsbenchmark/")
    options = parser.parse_intermixed_args(argv)
    train, dev = sts.read_splits(options.data, "train", "dev")
    run = load_run(options.run)
    in_dev = set(zip(dev.sentences1, dev.sentences2))
    kept = np.array([pair not in in_dev for pair in zip(train.sentences1, train.sentences2)])
    u1, u2 = (embed(run.model, run.vocabulary.encode(side)).astype(np.float64)[kept]
              for side in (train.sentences1, train.sentences2))
    labels = train.labels[kept]
    scores = cross_validate(u1, u2, labels, groups_of(train)[kept])
    rows = [[f"{strength:g}", f"{100 * of_strength.max():.1f}", str(of_strength.argmax() + 1)]
            for strength, of_strength in zip(STRENGTHS, scores)]
    print(table([f"{len(labels):,} pairs of train, {FOLDS} folds: strength", "held-out r",
                 "iterations"], rows))
    best, iterations = np.unravel_index(scores.argmax(), scores.shape)
    save_matrix(run, "tuned", fit(u1, u2, labels, STRENGTHS[best], int(iterations) + 1))
    plain, tuned = (sts.scores(run, dev)[row] for row in ("trained", "trained, tuned"))
    t, p = williams_test(tuned, plain, dev.labels)
    before = pearson(sts.angular_similarity(u1, u2), labels)
    print(f"\ntrain: r = {100 * before:.1f} out of the box, "
          f"{100 * scores.max():.1f} tuned and held out\n"
          f"dev: r = {100 * pearson(plain, dev.labels):.1f} out of the box, "
          f"{100 * pearson(tuned, dev.labels):.1f} tuned (Williams' t = {t:.2f}, p = {p:.2g})\n\n"
          f"{run.folder / 'tuned.safetensors'}: evaluation.sts shows both from now on; encode "
          "takes it with --tuned")


if __name__ == "__main__":
    main()
