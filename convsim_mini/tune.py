"""Tune a run for STS: one matrix on top of its embeddings (the paper's §4.3).

    python -m convsim_mini.tune RUN --data DIR
"""

if not __package__:
    raise SystemExit("run it by name, in the repository: python -m convsim_mini.tune")


import numpy as np
from scipy.optimize import minimize

from .common.cli import UserError, errors_in_one_line, parser_of, path_of
from .evaluation import sts
from .evaluation.results import Measured, show
from .core.model import embed
from .core.layers import l2_normalize_backward, l2_normalize_forward
from .inference.sentence_encoder import encoder_of
from .training.run import finished, load_run, save_tuned, training_in

# For `fit` (ours): as good on dev as values chosen by cross-validation on STS train.
STRENGTH, ITERATIONS = 0.3, 4
FLAT = 1e-9    # cosines this near to ±1 have no slope


def similarity_forward(matrix, u1, u2):
    """−arccos of the cosine of A u1 and A u2 (Yang et al. 2018, §4.3).

    matrix: (e, e), Aᵀ, because vectors are rows; u1, u2: (n, e) → similarity: (n,), −π … 0, cache
    """
    a, a_cache = l2_normalize_forward(u1 @ matrix)                        # (n, e)
    b, b_cache = l2_normalize_forward(u2 @ matrix)                        # (n, e)
    cosine = np.clip((a * b).sum(axis=1), -1, 1)                          # (n,)
    return -np.arccos(cosine), (u1, u2, a, b, a_cache, b_cache, cosine)


def similarity_backward(dsimilarity, cache):
    """Forward: s = −arccos(c), c = a · b, a = normalise(u1 M), b = normalise(u2 M).

    ds/dc = 1/√(1 − c²), which is unbounded near c = ±1. At c = ±1, s has no derivative; we use 0.
    da = dc b, db = dc a; M is used twice, so dM = u1ᵀ d(u1 M) + u2ᵀ d(u2 M).
    dsimilarity: (n,) → dmatrix: (e, e)
    """
    u1, u2, a, b, a_cache, b_cache, cosine = cache
    steep = np.abs(cosine) < 1 - FLAT
    slope = np.where(steep, 1 / np.sqrt(np.where(steep, 1 - cosine * cosine, 1)), 0)
    dcosine = (dsimilarity * slope)[:, None]                              # (n, 1)
    return (u1.T @ l2_normalize_backward(dcosine * b, a_cache)
            + u2.T @ l2_normalize_backward(dcosine * a, b_cache))


def correlation_forward(x, y):
    """Pearson's r of x: (n,) with fixed labels y: (n,) → 0-d array, cache."""
    x, y = x - x.mean(), y - y.mean()
    x_norm, y_norm = np.sqrt(x @ x), np.sqrt(y @ y)
    r = x @ y / (x_norm * y_norm)
    return r, (x / x_norm, y / y_norm, x_norm, r)


def correlation_backward(dr, cache):
    """Forward: r = x̂ · ŷ, both centred and of unit length.

    As in l2_normalize_backward, the part of ŷ along x̂ is projected out: dx = dr (ŷ − r x̂)/‖x‖.
    Centring would subtract the mean of dx, which is 0. dr: a number → dx: (n,)
    """
    x_unit, y_unit, x_norm, r = cache
    return dr * (y_unit - r * x_unit) / x_norm


def loss_and_gradient(matrix, u1, u2, labels, strength):
    """1 − r + strength · ‖M − I‖²/e and its gradient. The strength keeps M near the identity.

    Pearson's r itself is maximised. The score 5 (1 − arccos(c)/π) of cosines above 0 spans only
    2.5 … 5, so its squared distance from labels 0 … 5 would pull all sentences apart.
    """
    similarity, similarity_cache = similarity_forward(matrix, u1, u2)
    r, r_cache = correlation_forward(similarity, labels)
    away = matrix - np.eye(len(matrix))
    loss = 1 - r + strength * (away * away).sum() / len(matrix)
    gradient = similarity_backward(correlation_backward(-1, r_cache), similarity_cache)
    return loss, gradient + 2 * strength / len(matrix) * away


def fit(u1, u2, labels, strength, iterations):
    """The matrix (e, e) after this many iterations of L-BFGS, starting from the identity.

    u1, u2: (n, e); labels: (n,)
    """
    e = u1.shape[1]

    def objective(x):
        loss, gradient = loss_and_gradient(x.reshape(e, e), u1, u2, labels, strength)
        return loss, gradient.ravel()

    found = minimize(objective, np.eye(e).ravel(), jac=True, method="L-BFGS-B",
                     options={"maxiter": iterations})
    return found.x.reshape(e, e)


@errors_in_one_line()
def main(argv=None):
    """The command: learn on STS train without dev's pairs, then measure on dev."""
    parser = parser_of("tune", __doc__, "--device",
                       help="the run's folder; the matrix is added to the run")
    parser.add_argument("--data", type=path_of, help="folder with stsbenchmark/")
    options = parser.parse_intermixed_args(argv)
    run = load_run(options.run, options.device)
    if not finished(run.folder):                              # training would write over the matrix
        raise UserError(f"{run.folder}: its training is not finished; wait for it or resume it")
    both = sts.find(options.data).get(sts.GENRES)
    if not both:
        raise UserError("--data: name the folder that holds train and dev of the STS Benchmark")
    train, dev = map(sts.read, both)
    in_dev = set(zip(dev.sentences1, dev.sentences2))
    kept = np.array([pair not in in_dev for pair in zip(train.sentences1, train.sentences2)])
    u1, u2 = (embed(run.model, run.vocabulary.encode(side)).astype(np.float64)[kept]
              for side in (train.sentences1, train.sentences2))
    with training_in(run.folder):
        run = save_tuned(run, fit(u1, u2, train.labels[kept], STRENGTH, ITERATIONS))
    after = sts.scores(run, dev, encoder_of(run).encode)
    plain, tuned = ({f"{row}, as cosine": after[f"{row}, as cosine"]}
                    for row in ("trained", "trained, tuned"))
    text = show(Measured("sts", "dev", dev, tuned, plain))
    print(f"Learned from {kept.sum():,} pairs of STS train.\n\n{text}\n\n"
          f"The matrix is in {run.path}. evaluation --on sts now shows results with and without "
          "it; encode uses it with --tuned.")


if __name__ == "__main__":
    main()
