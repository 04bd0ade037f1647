# %% [markdown]
# # 19 · What the scores become, and what a larger batch shows
#
# **Needs** the batch softmax loss, its gradient and equal replies in a batch (lesson 5).
# **Gives** the scores at which the loss is lowest, also of frequent replies; what a batch shows.
# **Time** 50 minutes.
#
# **In thirty seconds.** The loss pushes every score towards one number that we can write
# down: the log of how much likelier a reply becomes after this input. That divides frequency out, so "yes" gets no
# score for fitting everywhere. And a batch of K replies can reveal at most ln K nats of what a model knows.
#
# Lesson 5 derived the loss's gradient. At which scores is it zero? Up to a constant for each input
# there is one best score for each pair.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from tqdm import tqdm
from convsim_mini.core.losses import batch_softmax_forward

rng = np.random.default_rng(seed(8))

# %% [markdown]
# ## The scores that the loss wants
#
# Let replies come with p(j | i) after the input i, and with p(j) overall. The wrong answers of a batch are other
# people's replies, so they come with p(j). Suppose that we see the K candidates and not which of them is true. If the
# true one is candidate a, then a was drawn by p(a | i) and all others by p(·), so by Bayes
#
# P(a is true) ∝ p(a | i) · Π_{b≠a} p(b) ∝ p(a | i)/p(a)
#
# where the last step divides by the product over all candidates, which is the same for each a. A
# softmax of scores says exactly that if
#
# s_ij = **log (p(j | i)/p(j))** plus any constant for each row
#
# This is the pointwise mutual information, PMI (lesson A counts it for words). A reply that follows
# this input half of the time and an eighth of the time overall gets ln 4; next to one with ln ½ it
# is the true one with probability 4/(4 + ½) = 8/9. "Yes" fits everywhere, and gets no score for
# being frequent: each time it is somebody else's reply, it is pushed down.
#
# Let us test it in a world of 60 inputs and 200 replies. Each input has a few replies of its own,
# and one reply in four is "yes", reply 0, whatever the input. There is no encoder: the scores are a
# table of 60 × 200 free numbers, learned from nothing but random batches.
#
# **Predict:** after training, is the score of "yes" above, at, or below its PMI? Some sixteen of a
# batch's 64 replies are "yes", so a row with that reply has fifteen duplicates of it as wrong ones.

# %%
inputs, replies = 60, 200
joint = rng.dirichlet(np.full(replies - 1, 0.02), inputs) * 0.75
joint = np.concatenate([np.full((inputs, 1), 0.25), joint], axis=1) / inputs    # p(i, j)
with np.errstate(divide="ignore"):
    pmi = np.maximum(np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0))), -30)
one_hot = np.eye(replies)                   # pmi[i] · one_hot[j] is the score of the pair
information = float((joint * pmi).sum())    # I(input; reply), in nats
possible = joint > 1e-4                     # pairs that training meets often enough


def draw(K):
    """K random pairs of this world: inputs (K,), replies (K,)."""
    return np.divmod(rng.choice(joint.size, K, p=joint.ravel()), replies)


def learned_scores(K=64, steps=4000, lower=0):
    """A table of scores after training on random batches, the mean of its second half.

    lower: by how much duplicates of a true reply count for less; 30 leaves them out → (60, 200).
    Softmax ignores a number that is added to a whole row, so each row is shifted until its mean
    over the input's own replies equals the PMI's.
    """
    scores, mean, own = *np.zeros((2, inputs, replies)), np.eye(K, dtype=bool)
    for step in tqdm(range(steps), disable=None):
        i, j = draw(K)
        s = scores[i][:, j] - lower * ((j[:, None] == j) & ~own)      # (K, K)
        p = np.exp(s - s.max(axis=1, keepdims=True))
        ds = p / p.sum(axis=1, keepdims=True) - own
        np.add.at(scores, (i[:, None], j), -0.5 * min(1, 2 - 2 * step / steps) * ds)
        if step >= steps // 2:
            mean += scores / (steps - steps // 2)
    weight = joint * possible * (np.arange(replies) > 0)
    return mean - ((mean - pmi) * weight).sum(axis=1, keepdims=True) / (
        weight.sum(axis=1, keepdims=True))


scores = learned_scores()
others = possible & (np.arange(replies) > 0)                  # all but "yes"
expect(np.corrcoef(scores[others], pmi[others])[0, 1], 0.95, 1,
       "correlation of scores and PMI, all but “yes”")
claim("score of “yes” above its PMI", (scores - pmi)[:, 0].mean(), -0.1, 0.1)
rare = others & (joint < 3e-4)                                # once in 50 batches or less
claim("replies met in less than one batch of 50: score above PMI", (scores - pmi)[rare].mean(),
      -0.3, 0)

# %%
figure, axes = plt.subplots(figsize=(8, 4.8))
axes.plot(pmi[others], scores[others], ".", color="C0", alpha=0.4, label="other replies")
axes.plot(pmi[rare], scores[rare], ".", color="C1", alpha=0.6, label="those met in few batches")
axes.plot(pmi[:, 0], scores[:, 0], "o", color="C3", label="“yes”")
axes.axline((0, 0), slope=1, color="k", linestyle=":", label="score = PMI")
axes.set(xlabel="log p(j | i)/p(j)", ylabel="learned score, rows aligned", xlim=(-1, 4.5),
         ylim=(-1.5, 5), title="The scores become the PMI, also for “yes”, the most frequent reply")
axes.legend(loc="upper left")
show(figure, "19_what_the_scores_become")

# %% [markdown]
# The score of "yes" is at its PMI, 0, and its duplicates are what keeps it there. (The orange
# dots, pairs met in fewer than one batch of 50, are a tenth of a nat too low on average. They are
# pushed all the time and pulled hardly ever, so 4,000 steps are few for them.)
#
# Why there? Let P be what the softmax of a row gives to all copies of "yes" together. Of 64 rows 16
# have the reply "yes", and each pulls by 1 − P (lesson 5). The other 48 each push by P. At P = ¼
# both are 12. For any share q of "yes" the two are equal if
#
# q (1 − P) = (1 − q) P, that is **P = q**
#
# In a large batch P is q e^s/(q e^s + 1 − q) if "yes" has the score s and others their PMI: s = 0.
#
# Many programs leave duplicates out of the softmax, because they are not really wrong. What happens to "yes" then?

# %%
left_out = (learned_scores(lower=30) - pmi)[:, 0].mean()
claim("duplicates left out: score of “yes” above its PMI", left_out, 0.2, 0.5)

# %% [markdown]
# It ends a third of a nat too high: frequency is no longer divided out completely.
#
# ### Exercise 1: leave the duplicates out
#
# Derive it (0.36 for the K and q of the cell; measured it is 0.33 to 0.37). Of K rows a = qK have the reply "yes", n
# = K − a have others. Now a row with "yes" sees one copy of it next to n others; each other row still sees a copies,
# and n others in all. Take e^PMI of these others as 1, its mean. At which s do all pulls equal all pushes?

# %%
def score_of_yes(K, q):
    """The score s of a reply with the share q, above its PMI, if duplicates are left out."""
    raise NotImplementedError


def judge_score_of_yes(score_of_yes, rng):
    for K, q in ((64, 0.25), (int(rng.integers(20, 500)), rng.uniform(0.02, 0.7)), (4, 0.25)):
        z, a, n = np.exp(score_of_yes(K, q)), q * K, (1 - q) * K
        pull, push = a * n / (z + n), n * a * z / (a * z + n)
        assert abs(pull - push) < 1e-6 * a, (
            f"K = {K}, q = {q:.2f}: the {a:.1f} rows with “yes” pull by {pull:.3f} in all, the "
            f"others push by {push:.3f}; what share has “yes” in a row of each kind?")


check(1, score_of_yes, judge_score_of_yes)

# %% [markdown]
# ### Exercise 2: wrong answers from elsewhere
#
# Suppose that you draw the wrong answers yourself, with chances q(j): each text as often as any
# other, say. At which scores is the loss lowest then?

# %%
def wanted_scores(joint, q):
    """The scores at which the expected gradient is zero.

    joint: p(i, j), (n, r), no zeros; q: (r,) chances of the wrong answers → (n, r)
    """
    raise NotImplementedError


def judge_wanted(wanted_scores, rng):
    joint = rng.dirichlet(np.ones(12)).reshape(3, 4)
    given = joint / joint.sum(axis=1, keepdims=True)          # p(j | i)
    for what, q in (("p(j)", joint.sum(axis=0)), ("even", np.full(4, 0.25)),
                    ("rng", rng.dirichlet(np.ones(4)))):
        s = wanted_scores(joint, q)
        assert s.shape == (3, 4), f"shape {s.shape}, expected (3, 4)"
        # a true reply j against one wrong answer k: the gradient is σ(s_k − s_j), + at k, − at j
        push = given[:, :, None] * q / (1 + np.exp(s[:, :, None] - s[:, None, :]))   # (i, j, k)
        gradient = push.sum(axis=1) - push.sum(axis=2)
        assert np.abs(gradient).max() < 1e-12, (
            f"q is {what}: a mean gradient of {np.abs(gradient).max():.2g} is left; by what has "
            "the chance of a true reply to be divided?")


check(2, wanted_scores, judge_wanted)

# %% [markdown]
# ## What a larger batch buys
#
# The mean PMI is I, the mutual information of input and reply: all that there is to know. A model
# that knows nothing has the loss ln K. One that knows everything is at best I lower, and a loss
# cannot be negative. So the most that a batch of K can reveal is
#
# ln K − loss ≤ **min(ln K, I)**
#
# (van den Oord et al. 2018, who named the loss InfoNCE, prove the part with I.) A batch of two asks
# a question of one bit, ln 2 = 0.69 nats, and no answer can show more than that.
#
# **Predict:** a model has the true PMI as its scores. Here I = 2.18 and e^I = 8.8. What share of I
# shows in batches of 2, of 9, and of 512?

# %%
least = int(np.ceil(np.exp(information)))
shares = {}
for K in (2, 4, least, 20, 64, 512):
    shown = [np.log(K) - batch_softmax_forward(pmi[i], one_hot[j])[0]
             for i, j in (draw(K) for _ in range(max(60, 40_000 // K)))]
    shares[K] = np.mean(shown) / information
    print(f"K = {K}: ln K = {np.log(K):.2f}, share of I that shows {shares[K]:.2f}")
claim("share of I that the least K with ln K ≥ I shows", shares[least], 0.5, 0.9)
claim("share of I that K = 512 shows", shares[512], 0.95, 1.05)
figure, axes = plt.subplots(figsize=(8, 3.4))
axes.semilogx([*shares], [min(np.log(K) / information, 1) for K in shares], "k:", label="at most")
axes.semilogx([*shares], [*shares.values()], "o-", label="measured with the true PMI as scores")
axes.set(xlabel="K, the batch", ylabel="share of I that shows", ylim=(0, 1.1),
         title="No batch shows more than ln K, and clearly less where ln K is near I")
axes.set_xticks([*shares], [*shares])
show(figure, "19_larger_batch")

# %% [markdown]
# Batches of 2 show 26% of I, of 9 show 69%, of 512 show 99%. So ln K ≥ I is necessary, not enough.
#
# Nor can losses at different K be compared, or a P@1 among different
# numbers of candidates. That is why the evaluation always takes 100.
#
# ## Where this lives
#
# - `core/losses.py`: `batch_softmax_forward`.
# - The paper, §2.1–2.2 and §3.1 (K = 128). That such scores become the mutual information is van
#   den Oord et al.'s (2018); for words it is Levy and Goldberg's (2014).

# %% [markdown]
# ## What you know now
#
# - The scores that the loss wants are the PMI of input and reply: frequency is divided out.
# - Equal replies in a batch are part of it: without their pushes a frequent reply ends too high.
# - A batch of K shows at most ln K nats of what a model knows, and often less.
#
# To read on: [On variational bounds of mutual information](https://arxiv.org/abs/1905.06922) asks
# what else could be measured. Next: lesson 20 gives one encoder two losses: their gradients add.
#
# Solutions, for when you have tried: `lessons/solutions/19_what_the_scores_become.py`.
