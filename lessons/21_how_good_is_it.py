# %% [markdown]
# # 21 · How good is it? Agreement with people, and what guessing gets
#
# **Needs** unit vectors (lesson 9), a trained encoder (lesson 18, trained again in seconds).
# **Gives** Pearson's r, average precision, their intervals and baselines; what ties earn.
# **Time** 70 minutes, in two parts; the second begins at "Average precision".
#
# **In thirty seconds.** A score is half a result. The other half is its interval, and
# what the simplest methods get. On 120 pairs an r of 0.6 is known to about ± 0.12. Comparing two
# systems pair by pair is 1.5 to 4.4 times as sharp as taking them for independent, and still does
# not tell weighted words from a trained encoder. And on our lists guessing gets a MAP of 0.645.
#
# A similarity correlates with people's at r = 0.60. What does such a number mean, how certain is
# it, and what should we compare it with?

# %%
import itertools
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
import scipy.stats
from small_encoder import trained_encoder
from convsim_mini.core.model import embed
from convsim_mini.evaluation import cqa
from convsim_mini.evaluation.baselines import frequency_weight, word_cosines
from convsim_mini.evaluation.metrics import average_precision, difference, pearson, pearson_interval
from convsim_mini.evaluation.sts import OWN, angular_similarity, lead, read, score_0_to_5

rng = np.random.default_rng(seed(16))

# %% [markdown]
# ## What people say
#
# The standard test is the STS Benchmark: 8,628 pairs of sentences, each with a score from 0
# (unrelated) to 5 (the same), the mean of several people's. Its licence keeps it out of this
# repository, so we use a small set of our own: 120 pairs in the same format, scored by one person.

# %%
sts = read(OWN)
labels = sts.labels
for k in np.argsort(labels)[[0, 40, 80, 119]]:
    print(f"{labels[k]:.1f}  {sts.sentences1[k]}  |  {sts.sentences2[k]}")

# %% [markdown]
# ## Pearson's r is a cosine
#
# Subtract the mean from the model's similarities x, and from people's scores y. What is left are
# two vectors of n numbers, and r is their cosine: 1 if one is a rising straight line of the other.
#
# r = x̂ · ŷ, x̂ = (x − mean x)/‖x − mean x‖
#
# Centring removes any shift and the norm removes any (positive) scale. The paper scores a pair by
# −arccos(u · v), its first version by 5 (1 − arccos(u · v)/π).
#
# **Predict:** which of these have the same r: −arccos(c), 5 (1 − arccos(c)/π), the plain cosine c?

# %%
def r_by_hand(x, y):
    x, y = x - x.mean(), y - y.mean()
    return x @ y / np.sqrt((x @ x) * (y @ y))


texts, pairs = sts.sentences1 + sts.sentences2, np.arange(240).reshape(2, 120)
cosine = word_cosines(texts, *pairs)
angle = -np.arccos(np.clip(cosine, -1, 1))
for name, similarity in {"−arccos c": angle, "5 (1 − arccos(c)/π)": score_0_to_5(angle),
                         "c": cosine}.items():
    print(f"{name:20} r = {r_by_hand(similarity, labels):.6f}")
expect(abs(pearson(score_0_to_5(angle), labels) - r_by_hand(angle, labels)), 0, 1e-12,
       "the first two have one r")

# %% [markdown]
# The first two share one r, because one is a straight line of the other. The cosine is not: arccos
# is a curve, and a curve changes r even where it keeps the order. A paper has to say which.
#
# ## How certain is an r?
#
# What we computed is the r of *these* 120 pairs. Another 120 would give another. How far off could
# it be? Fisher found that for normal data artanh r is nearly normal, with a standard error of
# 1/√(n − 3), so the 95% interval is tanh(artanh r ± 1.96/√(n − 3)).
#
# **Predict:** for r = 0.6, how wide is it from end to end for n = 120: 0.05, 0.12 or 0.23? And for 1,500 pairs?

# %%
def interval(r, n):
    z, margin = np.arctanh(r), 1.96 / np.sqrt(n - 3)
    return np.tanh(z - margin), np.tanh(z + margin)


for n in (120, 1500):
    low, high = interval(0.6, n)
    x = rng.standard_normal((2000, n))
    y = 0.6 * x + 0.8 * rng.standard_normal((2000, n))        # true correlation: 0.6/√(0.36 + 0.64)
    draws = np.array([r_by_hand(*pair) for pair in zip(x, y)])
    print(f"n = {n}: {low:.3f} to {high:.3f}; 95% of 2,000 drawn samples: "
          f"{np.quantile(draws, 0.025):.3f} to {np.quantile(draws, 0.975):.3f}")
    expect(np.mean((draws > low) & (draws < high)), 0.93, 0.97, "share of the samples within")

# %% [markdown]
# The interval is 0.23 wide for 120 pairs, and 0.06 for 1,500.
#
# Does that make small differences meaningless? It would if the two r came from different sentences.
# But two systems that score the *same* pairs fail on the same hard ones, and what they have in
# common cancels. So we draw pairs with replacement, compute both r on the same draw, and look at
# their difference; 95% of the differences of 10,000 draws are the paired bootstrap interval (Efron
# 1979). That two single intervals overlap says little. What counts is whether this one holds 0.
#
# ### Exercise 1: compare in pairs
#
# Write this interval for two systems' similarities and people's scores of the same pairs.

# %%
def paired_interval(one, other, labels, rng, draws=2000):
    """95% interval of r(one) − r(other), by the bootstrap; one, other, labels: (n,) → low, high."""
    raise NotImplementedError


def judge_paired_interval(paired_interval, rng):
    labels, hard = rng.standard_normal((2, 120))              # what both systems get wrong
    one, other = (labels + hard + part * rng.standard_normal(120) for part in (0.1, 0.5))
    low, high = paired_interval(one, other, labels, rng)
    assert low < high, f"{low:.3f} to {high:.3f}: drawn with replacement, sorted?"
    _, *right = difference(lambda x, y, axis: scipy.stats.pearsonr(x, y, axis=axis).statistic,
                           one, other, labels)
    times = (high - low) / (right[1] - right[0])
    assert 0.8 < times < 1.25, (f"{times:.2f} times as wide as it should be; is each difference "
                                "from one draw, the same for all three?")
    assert abs(low - right[0]) < 0.2 * (right[1] - right[0]), (
        f"{low:.3f} to {high:.3f}, expected {right[0]:.3f} to {right[1]:.3f}")


check(1, paired_interval, judge_paired_interval)

# %% [markdown]
# ## Baselines that are hard to beat
#
# The encoder is lesson 18's. How far do you get without learning anything from replies?
#
# - **Binary word cosine**, SemEval's own: both sentences as sets of words, c = |A ∩ B|/√(|A| |B|).
# - **Weighted** (Arora et al. 2017): the same with a weight a/(a + p) for a word of probability p,
#   a = 0.001. "the" gets 0.04, "surfboard" gets 1. Shared common words hardly count.
# - **Untrained**: our encoder before its first step.
#
# **Predict** the order of the four.

# %%
corpus, untrained, trained, _ = trained_encoder()
weighted = word_cosines(texts, *pairs, frequency_weight(corpus.vocabulary))


def sides(model):
    """The embeddings of the 120 first and the 120 second sentences: (n, e) each, float64."""
    packed = [corpus.vocabulary.encode(side) for side in (sts.sentences1, sts.sentences2)]
    return [embed(model, side).astype(np.float64) for side in packed]


similarities = {"trained on replies": angular_similarity(*sides(trained)),
                "before training": angular_similarity(*sides(untrained)),
                "words, weighted a/(a + p)": weighted, "words, binary": cosine}
r = {name: pearson(similarity, labels) for name, similarity in similarities.items()}
alone = {name: 50 * np.ptp(pearson_interval(similarity, labels))
         for name, similarity in similarities.items()}        # half-widths, in points
paired, unpaired = {}, {}
for name, similarity in similarities.items():
    print(f"{name:26} r = {100 * r[name]:5.1f} ± {alone[name]:.1f}")
    if name != "trained on replies":
        paired[name] = lead(sts, similarities["trained on replies"], similarity)
        unpaired[name] = np.hypot(alone["trained on replies"], alone[name])
        print("{:26} trained less this one: {:+.1f} [{:+.1f}, {:+.1f}]; unpaired ± {:.1f}, {:.1f} "
              "times as wide".format("", *paired[name], unpaired[name], 2 * unpaired[name] / np.ptp(
                  paired[name][1:])))

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), sharey=True)
for row, (name, similarity) in enumerate(reversed(similarities.items())):
    left.plot(pearson_interval(similarity, labels), [row, row], color="C0", linewidth=2)
    left.plot(r[name], row, "o", color="C3" if "trained on" in name else "C0", markersize=9)
    if name in paired:
        right.plot(paired[name][0] + unpaired[name] * np.array([-1, 1]), [row, row], color="0.85",
                   linewidth=9)
        right.plot(paired[name][1:], [row, row], color="C0", linewidth=2)
        right.plot(paired[name][0], row, "o", color="C0", markersize=9)
right.axvline(0, color="k", linestyle=":")
left.set_yticks(range(len(similarities)), list(reversed(similarities)))
left.set(xlabel="r with one person's scores, 95% interval", ylabel="similarity by",
         ylim=(-0.6, 3.6), title="All four intervals overlap …")
right.set(xlabel="trained less this one, points; grey: not paired", ylabel="compared with",
          title="… and still one is worse")
show(figure, "21_how_good_is_it")

claim("r of the trained encoder", r["trained on replies"], low=0.5)
for name, least, most in (("words, weighted a/(a + p)", -1.3, 1.3), ("words, binary", 1, np.inf)):
    value, low, high = paired[name]
    claim(f"trained less {name}, in half-widths of the paired interval", 2 * value / (high - low),
          least, most)

# %% [markdown]
# Binary words come last, and the other three are close together, because the start already knows
# co-occurrences and word frequencies. Look at the picture twice. On the left all four intervals
# overlap, and one could conclude that nothing can be told apart. On the right are the paired
# differences, and the interval of binary words excludes 0: "they overlap, so there is no
# difference" is a fallacy. The trained encoder and weighted words are not separated, even in pairs.
# Are 120 pairs too few? Perhaps: not to be told apart is not the same as to be equal, which only a
# narrow paired interval around 0 could show.
#
# ## Average precision
#
# The paper's other task is about a forum: given a question and ten (here six) others that a search
# has found, rank those that ask the same thing first. The **average precision** scores a ranking:
# stop at each relevant item, note the *share* of relevant ones so far, and take the mean of these
# shares. For the order yes, no, yes, no, no, yes we stop at ranks 1, 3 and 6:
#
# AP = (1/1 + 2/3 + 3/6)/3 = 13/18 = 0.722
#
# MAP is the mean of AP over questions. What does a *random* order get? Of n items R are relevant,
# so we stop at rank k with probability R/n. When we do, the share is (1 + those expected among the
# k − 1 before)/k = (1 + (k − 1)(R − 1)/(n − 1))/k. Sum over k, divide by R:
#
# **E[AP] = (1/n) Σ_k (1 + (k − 1)(R − 1)/(n − 1))/k**
#
# **Predict:** for 3 relevant of 6, is it nearer to 0.3, 0.5 or 0.65?

# %%
padded = lambda relevant: np.pad(relevant, ((0, 0), (0, 10 - relevant.shape[1])))    # to ten
example = np.array([[True, False, True, False, False, True]])
assert np.isclose(average_precision(padded(example))[0], (1 / 1 + 2 / 3 + 3 / 6) / 3)


def random_average_precision(n, R):
    k = np.arange(1, n + 1)
    return float(((1 + (k - 1) * (R - 1) / (n - 1)) / k).sum() / n)


def orders_of(n, R):
    """All orders of R relevant ones among n: (orders, n) bool."""
    return np.array([[k in relevant for k in range(n)]
                     for relevant in itertools.combinations(range(n), R)])


guessing = random_average_precision(6, 3)
expect(abs(average_precision(padded(orders_of(6, 3))).mean() - guessing), 0, 1e-9,
       "mean of AP over all 20 orders, less the derived one")
expect(guessing, 0.6, 0.7, "so with 3 relevant of 6 guessing gets a MAP of")

# %% [markdown]
# With 3 relevant of 6, guessing already scores 0.645.
#
# ## Ten questions of our own
#
# They have six candidates each, of which three ask the same. How certain is a MAP of ten questions?
# We put the candidates in a random order, again and again, and see how far luck alone gets.
#
# **Predict** the range that holds 95% of these MAPs of guessing. And will TF-IDF, which looks for
# shared rare words, be above or below guessing on this set?

# %%
questions = cqa.read(cqa.OWN)
guessed = np.array([average_precision(cqa.top_ten(questions, rng.permutation(60))).mean()
                    for _ in range(1000)])
low, high = np.quantile(guessed, (0.025, 0.975))
by_words = average_precision(cqa.top_ten(
    questions, cqa.baselines(None, questions)[cqa.TFIDF])).mean()
print(f"guessing: MAP {low:.3f} to {high:.3f} in 95% of 1,000 random orders; TF-IDF {by_words:.3f}")
claim("ten questions: width of the range that holds 95% of guessing's MAPs", high - low, low=0.15)
expect(by_words - guessing, -0.2, -0.1, "MAP of TF-IDF on our set, less that of guessing")

# %% [markdown]
# With ten questions guessing covers a fifth of the scale. TF-IDF is *worse* than guessing, because
# we built the set that way.
#
# To "Good vet for a cat" the candidate "Best cat food" shares the rare word and asks something
# else; "Animal clinic" shares no word and asks the same. Before you believe a test set, read it.
#
# ## The order of equals
#
# Scores can be equal: texts that share no word all get 0. A sort then keeps the order of the file.
#
# **Predict:** a system gives *every* candidate the score 0. What is its MAP on our set? And on a
# file that lists the relevant ones first?

# %%
map_of = lambda some: 100 * average_precision(cqa.top_ten(some, np.zeros(60))).mean()
relevant_first = [question._replace(candidates=sorted(
    question.candidates, key=lambda candidate: not candidate.relevant)) for question in questions]
expect(map_of(questions), 64, 65, "every score 0: MAP, that of the file's order")
expect(map_of(relevant_first), 100, 100, "the same scores, relevant ones first in the file")

# %% [markdown]
# The MAP is 64 on our set and 100 on the other file, although this system knows nothing.
#
# ## Where this lives
#
# - `evaluation/metrics.py`: `pearson`, `pearson_interval`, `difference`, `average_precision`.
# - The paper, §4.3 (−arccos; Tables 3 and 4), §4.4 (question ranking). Intervals are ours.

# %% [markdown]
# ## What you know now
#
# - r and MAP have intervals, wide ones with 120 pairs or ten questions; a paired one is narrower.
# - Next to every score belong those of plain words and of guessing, whose MAP is neither 0 nor ½.
# - A test set can be built so that words score below guessing: read it. Ties take the file's order.
#
# To read on: [The hitchhiker's guide to testing statistical significance in natural language
# processing](https://aclanthology.org/P18-1128/). Next: lesson 22 looks at the shape of the space
# that all these vectors share.
#
# Solutions, for when you have tried: `lessons/solutions/21_how_good_is_it.py`.
