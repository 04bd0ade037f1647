# %% [markdown]
# # 21 · Ranking and MAP: what guessing gets
#
# **Needs** intervals (lesson 21), counting orders.
# **Gives** average precision and its value for a random order; what equal scores are worth.
# **Time** 35 minutes.
#
# Lesson 21 asked whether similarities agree with people's. Often only an order is needed: which of
# these ten questions asks what I ask? A score for an order has a value for guessing that is neither
# zero nor one half. You need it to read the score.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, plt, seed, show

import itertools

import numpy as np

from convsim_mini.evaluation import cqa
from convsim_mini.evaluation.metrics import average_precision

rng = np.random.default_rng(seed(16))

# %% [markdown]
# ## Average precision
#
# The paper's other task: a question on a forum, and ten (here six) others that a search found.
# Those that ask the same should come first. A ranking is scored by the **average precision**: at
# the rank k of each relevant item, take the *share* of relevant ones among the first k; the average
# precision is the mean of these shares. Take the order yes, no, yes, no, no, yes:
#
# AP = (1/1 + 2/3 + 3/6)/3 = 13/18 = 0.722
#
# MAP is its mean over questions. What does a *random* order get? Not zero, and not one half. Of n
# items R are relevant. Rank k holds a relevant one with probability R/n; then the precision there
# is (1 + what is expected among the k − 1 before)/k = (1 + (k − 1)(R − 1)/(n − 1))/k. Sum over k
# and divide by R:
#
# **E[AP] = (1/n) Σ_k (1 + (k − 1)(R − 1)/(n − 1))/k**
#
# **Predict:** for 3 relevant of 6, is it nearer to 0.3, 0.5 or 0.65?

# %%
example = np.array([[True, False, True, False, False, True]])
by_hand = (1 / 1 + 2 / 3 + 3 / 6) / 3
# the library looks at ten
padded = lambda relevant: np.pad(relevant, ((0, 0), (0, 10 - relevant.shape[1])))
assert np.isclose(average_precision(padded(example))[0], by_hand)


def random_average_precision(n, R):
    k = np.arange(1, n + 1)
    return float(((1 + (k - 1) * (R - 1) / (n - 1)) / k).sum() / n)


def orders_of(n, R):
    """All orders of R relevant ones among n: (orders, n) bool."""
    return np.array([[k in relevant for k in range(n)]
                     for relevant in itertools.combinations(range(n), R)])


orders = orders_of(6, 3)
print(f"all {len(orders)} orders of 3 among 6: mean of AP "
      f"{average_precision(padded(orders)).mean():.6f}")
guessing = random_average_precision(6, 3)
expect(abs(average_precision(padded(orders)).mean() - guessing), 0, 1e-9,
       "mean over all orders less the derived one")
expect(guessing, 0.6, 0.7, "so guessing has a MAP of")

# %% [markdown]
# ### Exercise 1: the worst order
#
# What has the worst order of all, in which the R relevant items come last? It is not 0 either.

# %%
def worst_average_precision(n, R):
    """AP of n items if the R relevant ones come last."""
    raise NotImplementedError


def judge_worst(worst, rng):
    for n, R in ((10, 1), (5, 5), *((10, int(R)) for R in rng.integers(2, 10, 4))):
        order = np.arange(n) >= n - R
        right, found = average_precision(padded(order[None]))[0], worst(n, R)
        assert abs(found - right) < 1e-9, (
            f"n = {n}, R = {R}: {found:.4f}, but it is {right:.4f}; how many relevant ones are "
            "there up to the k-th of them, and at which rank does it stand?")


check(1, worst_average_precision, judge_worst)

# %% [markdown]
# ## Ten questions of our own
#
# They are made for this project, with six candidates each, of which three ask the same. How sure is
# a MAP of ten questions? Put the candidates in a random order, again and again.
#
# **Predict** the range that holds 95% of these MAPs of guessing. And will TF-IDF, which looks for
# shared rare words, be above or below guessing on this set?

# %%
questions = cqa.read(cqa.OWN)
guessed = np.array([average_precision(cqa.top_ten(questions, rng.permutation(60))).mean()
                    for _ in range(1000)])
low, high = np.quantile(guessed, (0.025, 0.975))
by_words = average_precision(cqa.top_ten(
    questions, cqa.cosines(questions, cqa.tfidf_vectors(questions)))).mean()
print(f"guessing: MAP {low:.3f} to {high:.3f} in 95% of 1,000 random orders; TF-IDF {by_words:.3f}")
claim("MAP of random orders, mean; derived 0.645", guessed.mean(), guessing - 0.01, guessing + 0.01)
claim("width of the range that holds 95% of them, for ten questions", high - low, low=0.15)
claim("MAP of TF-IDF on our set, less that of guessing", by_words - guessing, high=-0.1)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
for n, color in ((6, "C0"), (10, "C1")):
    R = np.arange(1, n + 1)
    all_orders = [average_precision(padded(orders_of(n, r))) for r in R]
    left.plot(R / n, [random_average_precision(n, r) for r in R], ":", color="k",
              label="guessing, derived" if n == 6 else None)
    left.plot(R / n, [found.mean() for found in all_orders], "o", color=color,
              label=f"mean of all orders of {n}")
    left.plot(R / n, [found.min() for found in all_orders], "v", color=color, alpha=0.5,
              label=f"the worst of them, n = {n}")
left.set(xlabel="share of relevant ones, R/n", ylabel="average precision", xlim=(0, 1.05),
         ylim=(0, 1.05), title="Guessing has more than R/n; the\nworst order has more than 0")
left.legend(loc="upper left", fontsize=9)
right.hist(guessed, 30, color="C0", alpha=0.6, label="random orders")
right.axvline(guessing, color="k", linestyle=":", label="guessing, derived")
right.axvline(by_words, color="C3", label="TF-IDF")
right.set(xlabel="MAP of ten questions", ylabel="of 1,000 random orders",
          title="TF-IDF is below guessing\non our set")
show(figure, "21b_ranking_and_map")

# %% [markdown]
# TF-IDF is *worse* than guessing here. We wrote the set so: to "Good vet for a cat" the candidate
# "Best cat food" shares the rare word and asks something else, "Animal clinic" shares none and asks
# the same. So this says something about the set, nothing about TF-IDF elsewhere. On SemEval's real
# questions, which search engines have already filtered by words, TF-IDF has 68.4 and our Reddit run
# 71.4 on dev (`report/README.md`). Read some pairs of a test set before you believe its scores.
#
# Guessing alone covers a quarter of the scale with ten questions. Even SemEval's 50 and 70 leave
# ± 9 points, while the systems of 2017 that the paper lists are two points apart.
#
# ## The order of equals
#
# Scores can be equal: short texts that share no word, vectors of zeros. A sort has to put them
# somewhere, and `top_of_ranking` keeps the order of the file.
#
# **Predict:** a system gives *every* candidate the score 0. What is its MAP on our set? And on a
# file that lists the relevant ones first?

# %%
zeros = np.zeros(60)
map_of = lambda some: 100 * average_precision(cqa.top_ten(some, zeros)).mean()
relevant_first = [question._replace(candidates=sorted(
    question.candidates, key=lambda candidate: not candidate.relevant)) for question in questions]
expect(map_of(questions), 64, 65, "every score 0: MAP, that of the file's order")
expect(map_of(relevant_first), 100, 100, "the same scores, relevant ones first in the file")

# %% [markdown]
# ### Exercise 2: no credit for the file
#
# Write the *expected* AP when equal scores are put in a random order (small lists: you may try all
# orders).

# %%
def expected_average_precision(relevant, scores):
    """Mean of AP over all orders by falling score, equal scores in any order.

    relevant, scores: lists of n ≤ 6.
    """
    raise NotImplementedError


def judge_expected(expected, rng):
    relevant = [True, True, True, False, False, False]
    found = expected(relevant, [0.0] * 6)
    assert abs(found - random_average_precision(6, 3)) < 1e-9, (
        f"with all scores equal it is {found:.3f}; it should be that of guessing, "
        f"{random_average_precision(6, 3):.3f}")
    assert abs(expected(relevant, [6, 5, 4, 3, 2, 1]) - 1) < 1e-9, (
        "a perfect order without equals has 1")
    assert abs(expected([True, False], [1, 1]) - 0.75) < 1e-9, "two equals: 1 or ½, so ¾"
    mixed = expected([True, False, True], [0.9, 0.9, 0.1])    # yes no yes, or no yes yes
    assert abs(mixed - (5 / 6 + 7 / 12) / 2) < 1e-9, "only equals may change places"
    relevant, scores = rng.permutation([True] * 3 + [False] * 3), rng.integers(1, 4, 6)
    drawn = [np.lexsort((rng.random(6), -scores)) for _ in range(4000)]
    found, right = expected(relevant.tolist(), scores.tolist()), average_precision(
        padded(relevant[np.array(drawn)])).mean()
    assert abs(found - right) < 0.02, f"{found:.3f}, expected {right:.3f} for scores {scores}"


check(2, expected_average_precision, judge_expected)

# %% [markdown]
# ## Where this lives
#
# - `evaluation/metrics.py`: `average_precision`, `ranking_scores`. `evaluation/cqa.py`: the
#   reader of the files, and the command.
# - Our figures beside the paper's, and the reasons for the gap: `report/README.md`.
# - The paper, §4.4 (question ranking; Table 6). The intervals are ours.

# %% [markdown]
# ## Claims
#
# Over five seeds, as `python -m lessons.claims 22` prints it. The last column says which values would refute the claim.
#
# | claim | mean ± sd | least to most | refuted |
# | --- | --- | --- | --- |
# | MAP of random orders, mean; derived 0.645 | 0.645 ± 0.003 | 0.642 to 0.648 | below 0.635, above 0.655 |
# | width of the range that holds 95% of them, for ten questions | 0.208 ± 0.006 | 0.2 to 0.216 | below 0.15 |
# | MAP of TF-IDF on our set, less that of guessing | -0.144 ± 0 | -0.144 to -0.144 | above -0.1 |

# %% [markdown]
# ## What you know now
#
# - A score of an order has a value for guessing, and it is neither 0 nor ½.
# - Where scores are equal, the order in the file decides what a system gets.
# - Ten questions, or 50, hardly separate two systems: print the interval, and read the pairs.
#
# Next: lesson 22 looks at the shape of the space in which all these vectors lie.
#
# Solutions, for when you have tried: `lessons/solutions/21b_ranking_and_map.py`.
