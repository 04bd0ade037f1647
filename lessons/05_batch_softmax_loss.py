# %% [markdown]
# # 5 · The batch softmax loss: every other reply is a wrong answer
#
# **Needs** softmax and cross-entropy with their gradient (lesson 4).
# **Gives** this loss, its gradient as a picture, what a loss of ln K tells you, and what goes wrong
# when two replies are the same.
# **Time** 50 minutes.
#
# There are no labels, only pairs: a message and its reply. The trick of the paper is to take a batch of K pairs and
# ask of each input: which of these K replies is yours? The other K − 1 are wrong answers that come for free:
# *in-batch negatives*. The field calls this loss [InfoNCE](https://arxiv.org/abs/1807.03748).
#
# **In thirty seconds.** Score every input against every reply of the batch, run a softmax over each
# row, and ask for a large p on the diagonal. The gradient is p minus the diagonal: each input is
# pulled to its own reply and pushed away from those it believes in.

# %%
import sys
from collections import Counter

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini import minimal
from convsim_mini.core.gradcheck import numeric_gradient, relative_error
from convsim_mini.core.layers import l2_normalize_forward
from convsim_mini.core.losses import batch_softmax_backward, batch_softmax_forward
from convsim_mini.core.text import tokenize
from convsim_mini.data.units import text_key
from convsim_mini.data.pairs import read_rows
from convsim_mini.data.formats import default_corpus

rng = np.random.default_rng(seed(8))

# %% [markdown]
# ## A matrix of scores
#
# u_i is the vector of input i, v_j that of reply j, both of one batch of B pairs (the paper calls
# it K). Each input scores each reply by a dot product, times a scale:
#
# s_ij = scale · u_i · v_j
#
# (The field often writes a *temperature*, 1/scale: our 15 is a temperature of 0.067.) Row i becomes
# a softmax over all replies. The diagonal is right and everything else wrong. As loops:

# %%
def loss_by_loops(u, v, scale):
    """−mean log p(true): u, v: (B, d)."""
    losses = []
    for i in range(len(u)):
        scores = [scale * (u[i] @ v[j]) for j in range(len(v))]
        losses.append(np.log(sum(np.exp(scores))) - scores[i])
    return np.mean(losses)


u, v = rng.standard_normal((2, 5, 3))
loss, _ = batch_softmax_forward(u, v, 2.0)
expect(abs(loss - loss_by_loops(u, v, 2.0)), 0, 1e-13, "the library's loss minus that of the loops")

# %% [markdown]
# ## Where it starts: ln K
#
# A model that knows nothing gives all K replies the same score. Each has p = 1/K, and
# −log(1/K) = **ln K**. Above ln K the *probabilities* are worse than equal ones.
#
# But a fresh model's scores are not equal, they are *random*, and that costs. Let them be normal with mean 0
# and variance σ². If K is far above e^{σ²}, the sum of K powers is about K E e^s = K e^{σ²/2}. So
#
# loss ≈ ln K + **σ²/2**
#
# Two random unit vectors in d dimensions have a dot product of variance 1/d, so σ² = scale²/d.
#
# **Predict** the loss of random unit vectors: K = 1024 (ln K = 6.93), d = 500, scale 15, our defaults.

# %%
K, d = 1024, 500
u, v = (l2_normalize_forward(rng.standard_normal((K, d)))[0] for _ in range(2))
variance = 15**2 / d
derived, noise = np.log(K) + variance / 2, np.sqrt(variance / K)        # of the mean of K scores
expect(batch_softmax_forward(u, v, 15.0)[0], derived - 4 * noise, derived + 4 * noise,
       f"ln K + scale²/2d = {derived:.3f}, give or take 4 · {noise:.3f}")

# %% [markdown]
# It is 7.17, worse than equal scores: being confident at random costs 0.2 nats.
#
# ## The gradient
#
# **Write it yourself:** `yours/batch_softmax.py`, then `python -m lessons.yours check batch_softmax`.
#
# Take two pairs whose e^s are whole numbers: u and v are the unit vectors (1, 0) and (0, 1), and the
# scale is ln 3. Then each row gives its own reply a probability of ¾. How should the loss change if we
# raise the wrong score s₀₁ a little? Its p is ¼, and the loss is the mean of two rows: ⅛ of the step.

# %%
eye = np.eye(2)
p = 3**eye / (3**eye).sum(axis=1, keepdims=True)
print("e^s =", (3**eye).tolist(), "  p =", p.tolist(), f"  loss = −ln ¾ = {-np.log(p[0, 0]):.4f}")
s = np.log(3) * eye + [[0, 0.001], [0, 0]]
raised = np.mean(np.log(np.exp(s).sum(axis=1)) - np.diag(s))
print(f"slope at s₀₁, by differences: {(raised + np.log(p[0, 0])) / 0.001:.4f}")
print("p, less 1 on the diagonal, halved:", ((p - eye) / 2).tolist())

# %% [markdown]
# In general each row is a cross-entropy, so
#
# **ds_ij = (p_ij − δ_ij)/B**
#
# and s = scale · u vᵀ is a product of matrices (lesson 3): du = scale · ds v, dv = scale · dsᵀ u:

# %%
B, scale = 5, 2.0
u, v = rng.standard_normal((2, B, 3))
s = scale * u @ v.T                                           # (B, B)
loss_of_scores = lambda: float((np.log(np.exp(s).sum(axis=1)) - np.diag(s)).mean())
p = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
ds = (p - np.eye(B)) / B                                      # (B, B)
du, dv = scale * ds @ v, scale * ds.T @ u                     # (B, d) each
loss = lambda: float(batch_softmax_forward(u, v, scale)[0])
expect([relative_error(ds, numeric_gradient(loss_of_scores, s)),
        relative_error(du, numeric_gradient(loss, u)),
        relative_error(dv, numeric_gradient(loss, v))], 0, 1e-8, "ds, du, dv, against differences")
library = batch_softmax_backward(1.0, batch_softmax_forward(u, v, scale)[1])
expect(list(map(relative_error, (du, dv), library)), 0, 1e-13, "du, dv, the library's")

# %% [markdown]
# Written out for one input,
#
# du_i = −scale · (v_i − Σ_j p_ij v_j)/B
#
# A step against it moves u_i towards its true reply and away from **the average of the replies it believes in**. A
# reply to which input i gives p ≈ 0 does not push it. The replies that are hard to tell from the right one do most of
# the work, and nobody had to pick them.
#
# ### Exercise 1: break it so that it never starts
#
# Find vectors u, v, none of them zero, at which the loss is ln B and **both** gradients are exactly
# zero. (du_i = scale · Σ_j ds_ij v_j; what does each row of ds sum to?)

# %%
def dead_point():
    """→ u, v: (8, 5) each, no zero rows, with loss ln 8 and no gradient."""
    raise NotImplementedError


def judge_dead_point(dead_point, rng):
    u, v = (np.array(vectors, float) for vectors in dead_point())
    assert u.shape == v.shape == (8, 5), f"shapes {u.shape} and {v.shape}, expected (8, 5)"
    assert np.isfinite([u, v]).all(), "some of the numbers are nan or inf"
    assert np.linalg.norm([u, v], axis=2).min() > 1e-3, "a vector is zero, or shorter than 0.001"
    loss, cache = batch_softmax_forward(u, v, 1.0)
    assert abs(loss - np.log(8)) < 1e-9, f"the loss is {loss:.4f}, expected ln 8 = {np.log(8):.4f}"
    du, dv = (np.abs(g).max() for g in batch_softmax_backward(1.0, cache))
    assert du < 1e-12 and dv < 1e-12, (
        f"|du| is at most {du:.1e} and |dv| {dv:.1e}: one of the two can still move")


check(1, dead_point, judge_dead_point)

# %% [markdown]
# ## The gradient as a picture
#
# We take twelve pairs, whose inputs and replies are vectors that move freely, with no encoder yet.
# But three of the replies, numbers 2, 6 and 7, are the same text, "yes": they *share* one vector.
#
# **Predict:** row 2 wants reply 2 and is told that 6 and 7 are wrong. They are the same vector, so
# the best it can do is ⅓ each. The other nine rows can be right. How low can the loss go?

# %%
text_of_reply = np.array([0, 1, 2, 3, 4, 5, 2, 2, 8, 9, 10, 11])        # 2 is "yes"
start_u, start_v = rng.standard_normal((12, 16)), rng.standard_normal((12, 16))


def train(steps, rate=3.0):
    """Gradient descent on u and on the vectors of the texts; → loss, B · ds of the last step."""
    u, texts = start_u.copy(), start_v.copy()
    for _ in range(steps):                                    # scores start at variance 1
        loss, cache = batch_softmax_forward(u, texts[text_of_reply], 1 / 4)
        du, dv = batch_softmax_backward(1.0, cache)
        u -= rate * du
        np.add.at(texts, text_of_reply, -rate * dv)           # a text collects from all its places
    return float(loss), cache[3][0] - np.eye(12)


floor = 3 * np.log(3) / 12
figure, axes_row = plt.subplots(1, 3, figsize=(11, 4.3), sharey=True)
for axes, steps, what in zip(axes_row, (1, 12, 2000), (
        "Start: each row pulls its\nreply, pushes all others",
        "12 steps: the surer a row,\nthe less it pulls",
        "2,000: three rows still want\nthe same reply, “yes”")):
    loss, picture = train(steps)
    image = axes.imshow(picture, vmin=-1, vmax=1)
    axes.set(title=f"{what}\nloss {loss:.3f}", xlabel="reply j", xticks=range(0, 12, 2),
             ylabel="input i", yticks=range(0, 12, 2))
figure.colorbar(image, ax=axes_row, shrink=0.9, ticks=(-1, 0, 1),
                label="B · ∂loss/∂s_ij: blue pulls, red pushes")
show(figure, "05_batch_softmax_loss")

claim("three equal replies of twelve: loss after 2,000 steps / (3 ln 3/12)", loss / floor, 1, 1.05)
expect(picture[2, [2, 6, 7]].sum(), -0.05, 0.05, "row 2: the pull on “yes” and two pushes, −⅔ + ⅔")

# %% [markdown]
# The loss stays at 3 ln 3/12 = 0.2747. From the curve you could not tell this from a model that
# has stopped learning. The three large entries of row 2 act on one vector, and their sum is 0.
#
# ## A duplicate costs loss, not direction
#
# Let reply j have the text of the true reply i. Then v_j = v_i, and pull and push act along it:
#
# du_i = −scale · (**(1 − p_ii − p_ij)** v_i − Σ_k p_ik v_k)/B, where k runs over the others
#
# The bracket is never negative, so what is left always pulls. It ends at p_ii = p_ij = ½, where the
# row's loss is ln 2. Leaving duplicates out of the softmax removes the floor. It also lets a frequent
# reply score too high, because its copies no longer push it down where it is the true one (lesson 19).
#
# ### Exercise 2: the floor of a batch
#
# `keys[i]` is the hash of reply i, and all inputs differ. What is the lowest loss of such a batch?

# %%
def loss_floor(keys):
    """The lowest mean loss of a batch whose replies have these keys: (B,) → float."""
    raise NotImplementedError


def judge_loss_floor(loss_floor, rng):
    for keys in ([5, 6, 7], [1, 1], [9, 9, 9, 9, 2, 3, 3, 8], rng.integers(4, size=9)):
        keys = np.array(keys)
        distinct = np.unique(keys)
        v = 50.0 * (keys[:, None] == distinct)                # u = v: each text far from all others
        best, _ = batch_softmax_forward(v, v, 1.0)
        found = loss_floor(keys)
        assert abs(found - best) < 1e-9, (f"keys {keys.tolist()}: {found:.4f}, but {best:.4f} is "
                                          "right; is the mean over rows, and how many rows "
                                          "have each key?")


check(2, loss_floor, judge_loss_floor)

# %% [markdown]
# ## Above ln K, and yet right
#
# The loss judges probabilities. P@1 judges the *ranking*: how often does the true reply score
# highest? Here is `minimal.py` before any training, a box until lessons 6 to 9: bags of random word
# vectors, weighted by frequency. We take batches of 200 real pairs.
#
# **Predict:** its loss is above ln 200 = 5.30. Is its P@1 then below that of guessing, 0.5%?

# %%
turns = [[tokenize(text) for text in (pair.input, pair.response)]
         for chunk in read_rows(default_corpus()) for pair in chunk.pairs]
count_of = Counter(token for turn in turns for tokens in turn for token in tokens)
ids = {word: k for k, (word, _) in enumerate(count_of.most_common(20_000), start=1)}
params, _ = minimal.initial_values([count_of[word] for word in ids], rng)
losses, right = [], []
for batch in rng.choice(len(turns), (20, 200), replace=False):
    u, v = (minimal.encode(params, [minimal.rows_of(turns[k][side] or [""], ids) for k in batch])[0]
            for side in (0, 1))
    v_prime, _ = minimal.l2_normalize_forward(v + v @ params["R"] + params["b"])
    losses.append(minimal.batch_softmax(u, v_prime)[0])
    right.append(100 * ((u @ v_prime.T).argmax(axis=1) == np.arange(200)).mean())
claim("before training: loss minus ln 200", np.mean(losses) - np.log(200), low=0.15)
claim("before training: P@1 of 200, per cent; guessing gets 0.5", np.mean(right), low=5)

# %% [markdown]
# Its loss is a third of a nat above that of equal scores, and yet it picks the true reply more than twenty
# times as often as guessing does. Its scores are too large: it is too sure, and pays for each mistake. So
# never look at a loss without P@1. If the loss *stays* at ln K, no gradient arrives, or a useless one.
#
# ## How often are two replies the same?
#
# Of N pairs let c_t have text t as their reply. Two different ones have equal replies with chance
# Σ_t c_t (c_t − 1)/(N (N − 1)), and a batch has K (K − 1) chances, its wrong answers. On our corpus:

# %%
keys = np.array([text_key(" ".join(reply)) for _, reply in turns])
N, c = len(keys), np.unique(keys, return_counts=True)[1]
derived = K * (K - 1) * (c * (c - 1)).sum() / (N * (N - 1))
equal = np.array([(batch[:, None] == batch).sum(axis=1) - 1 for batch in (
    rng.choice(keys, K, replace=False) for _ in range(200))])             # (200, K), for each row
error = np.std(equal.sum(axis=1)) / np.sqrt(200)
expect(equal.sum(axis=1).mean(), derived - 5 * error, derived + 5 * error,
       f"wrong answers of a batch that are not wrong, derived {derived:.0f}")
print(f"rows with such an answer: {(equal > 0).sum(axis=1).mean():.1f} of {K:,}")

# %% [markdown]
# Of a million "wrong" answers only 22 have the text of the right one, in 13 of 1,024 rows. (Others
# would fit as well, "yeah" for "yes", but nobody can count those by comparing texts.)
#
# ## Where this lives
#
# - `core/losses.py`: `batch_softmax_forward`, `batch_softmax_backward`.
# - `minimal.py`: `batch_softmax` is this loss with its gradients du and dv, in four lines.
# - [The paper](https://arxiv.org/abs/1804.07754), §2.1–2.2 (figure 2: every response is right once
#   and wrong K − 1 times) and §3.1 (K = 128). The scale is ours; the paper names none.
# - To read further: [Henderson et al.](https://arxiv.org/abs/1705.00652), who chose replies for
#   Gmail with this loss.

# %% [markdown]
# ## What you know now
#
# - Equal scores have the loss ln K. Above it they are worse than equal ones, yet may rank well.
# - ds = (p − δ)/B: the true reply pulls, and those that the model believes in push.
# - Equal replies leave a floor under the loss, but push neither their inputs nor one another away.
#
# Next: lesson 6 turns text into ids. Lesson 19 asks which scores this loss leads to in the end.
#
# Solutions, for when you have tried: `lessons/solutions/05_batch_softmax_loss.py`.
