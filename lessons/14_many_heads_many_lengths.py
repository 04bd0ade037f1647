# %% [markdown]
# # 14 · Many heads, many lengths: attention over packed sentences
#
# **Needs** one attention head and its backward (lesson 12), `Packed` (lesson 6).
# **Gives** attention over sentences of all lengths, without padding; what padding would cost.
# **Time** 60 minutes. For the heads alone, read up to "Padding", then from "From words to a sentence".
#
# **In thirty seconds.** A head is a slice of the columns, so several heads are a reshape
# away; they cost h times the scores, but no extra parameters or multiplications. Many programs pad
# every sentence to the longest of its batch and mask the padding. That costs many times the scores
# that the sentences need, and if you forget the mask, nothing tells you. Sort by length instead:
# sentences of one length are an array already.

# %%
import sys
from itertools import islice

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.core.attention import attention_backward, attention_forward, groups
from convsim_mini.core.gradcheck import layer_error, relative_error
from convsim_mini.core.packed import Packed
from convsim_mini.core.text import tokenize
from convsim_mini.core.transformer_layers import mean_pool_backward, mean_pool_forward
from convsim_mini.data.pairs import read_rows
from convsim_mini.data.formats import default_corpus

rng = np.random.default_rng(seed(11))


def softmax(s):
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)

# %% [markdown]
# ## Why more than one head
#
# Suppose a word needs the first half of its output from word a and the second half from word b. One
# head has the same shares for all numbers of v, say w and 1 − w. With numbers of variance 1 the
# mean square error is (1 − w)² + w²: even at its best, w = ½, half of the variance is lost.
#
# Two heads lose nothing: the first looks at a, the second at b, and each moves only its half of the
# numbers. So cut the d columns into h slices of width m = d/h and let each slice have its own
# softmax. It costs no parameters and no more multiplications, h · n² · m = n² d for the scores. But
# there are h n² scores instead of n², each with its exponential, and the backward needs all of p.
#
# ## Heads by a reshape
#
# Column c of a row belongs to head c // m. So a row of d numbers *is* already a table of h rows and
# m columns. A reshape from (n, d) to (n, h, m) copies nothing. Matrix products need the head axis
# first, (h, n, m): swap two axes, again without a copy.

# %%
n, d, heads = 5, 12, 3
m = d // heads
qkv = rng.standard_normal((n, 3 * d))    # queries, keys and values side by side, as in lesson 12
three = qkv.reshape(n, 3, heads, m)    # one reshape for parts and heads at once
q, k, v = (three[:, part].swapaxes(0, 1) for part in range(3))                # (h, n, m) each
assert np.shares_memory(q, qkv), "a view: nothing was copied"
p = softmax(q @ k.swapaxes(1, 2) / np.sqrt(m))    # (h, n, m) (h, m, n) → (h, n, n), head by head
at_once = (p @ v).swapaxes(0, 1).reshape(n, d)    # (h, n, m) → (n, h, m) → (n, d)
wrong = qkv.reshape(3, heads, n, m)[0]    # the right shape, no error; but it mixes the words
assert wrong.shape == q.shape and not np.array_equal(wrong, q)
expect(relative_error(at_once, attention_forward(qkv, [0, n], heads)[0]), 0, 1e-14,
       "all heads at once, against the library's")

# %% [markdown]
# ## Many sentences: the loop that is right
#
# A batch is a `Packed`: all words one below the other, N rows, and the offsets at which sentences
# begin. Only attention has to know where a sentence ends. The plainest way is a loop over sentences
# and heads. It is our reference, forwards and backwards.

# %%
def loop_forward(qkv, offsets, heads):
    """qkv: (N, 3d); offsets: (B + 1,) → y: (N, d), cache."""
    d = qkv.shape[1] // 3
    m, y, kept = d // heads, np.empty((len(qkv), d), qkv.dtype), []
    for first, last in zip(offsets, offsets[1:]):
        for head in range(heads):
            q, k, v = (qkv[first:last, part * d + head * m:part * d + (head + 1) * m]
                       for part in range(3))
            p = softmax(q @ k.T / np.sqrt(m))
            y[first:last, head * m:(head + 1) * m] = p @ v
            kept.append((first, last, head, q, k, v, p))
    return y, (qkv.shape, m, kept)


def loop_backward(dy, cache):
    """Lesson 12 for each sentence and head: dy: (N, d) → dqkv: (N, 3d)."""
    shape, m, kept = cache
    dqkv = np.empty(shape)
    dq_all, dk_all, dv_all = np.split(dqkv, 3, axis=1)        # views
    for first, last, head, q, k, v, p in kept:
        rows, columns = slice(first, last), slice(head * m, (head + 1) * m)
        dp = dy[rows, columns] @ v.T
        ds = p * (dp - (p * dp).sum(axis=1, keepdims=True)) / np.sqrt(m)
        dq_all[rows, columns], dk_all[rows, columns] = ds @ k, ds.T @ q
        dv_all[rows, columns] = p.T @ dy[rows, columns]
    return dqkv


offsets = np.array([0, 3, 4, 7, 12])                          # sentences of 3, 1, 3 and 5 words
qkv = rng.standard_normal((12, 18))                           # d = 6
expect(layer_error(lambda qkv: loop_forward(qkv, offsets, 2), loop_backward, [qkv], rng), 0, 1e-7,
       "the loop's backward against differences")

# %% [markdown]
# **Predict:** the second sentence has a single word. What gradient do its query and key get,
# whatever dy is? And what is its y?

# %%
y, cache = loop_forward(qkv, offsets, 2)
expect(relative_error(y, attention_forward(qkv, offsets, 2)[0]), 0, 1e-14, "y and the library's")
dqkv = loop_backward(rng.standard_normal((12, 6)), cache)
expect(np.abs(dqkv[3, :12]).max(), 0, 1e-15, "gradient of the only word's query and key")
assert np.array_equal(y[3], qkv[3, 12:])

# %% [markdown]
# Query and key get a gradient of 0: p is 1 whatever they are. y is the word's own value.
#
# ## Padding, and the mask that is easily forgotten
#
# The usual way is an array (B, L, 3d), L the longest length, with zeros after the end of each
# sentence. The scores of padded keys are set to −∞, so that they get no share.

# %%
def padded_forward(qkv, offsets, heads, masked=True):
    lengths, d = np.diff(offsets), qkv.shape[1] // 3
    real = np.arange(lengths.max()) < lengths[:, None]        # (B, L): is it a word?
    filled = np.zeros((*real.shape, 3 * d), qkv.dtype)
    filled[real] = qkv
    q, k, v = filled.reshape(*real.shape, 3, heads, d // heads).transpose(2, 0, 3, 1, 4)
    s = q @ k.swapaxes(2, 3) / np.sqrt(d // heads)    # (B, h, L, m) (B, h, m, L) → (B, h, L, L)
    if masked:
        s = np.where(real[:, None, None, :], s, -np.inf)
    return (softmax(s) @ v).swapaxes(1, 2).reshape(*real.shape, d)[real]


expect(relative_error(padded_forward(qkv, offsets, 2), y), 0, 1e-14,
       "padded and masked against the loop")

# %% [markdown]
# Now forget the mask. A padded key is zero, so its score is 0 and its e^s is **1, not 0**. Its
# value is zero as well. So only the denominator grows, by one for each of the L − n padded words:
#
# y without mask = y · Z/(Z + L − n), Z = Σ_j e^s_ij
#
# No error, no nan: in each head, each word is scaled by a factor that also depends on the *longest
# sentence of its batch*. With scores around 0 the factor is about n/L. (That holds without a bias on k and v.)

# %%
forgotten = padded_forward(qkv, offsets, 2, masked=False)
q, k = qkv[:3, :3], qkv[:3, 6:9]                              # first sentence, first head, m = 3
z = np.exp(q @ k.T / np.sqrt(3)).sum(axis=1, keepdims=True)   # (3, 1)
expect(relative_error(forgotten[:3, :3], y[:3, :3] * z / (z + 5 - 3)), 0, 1e-14,
       "without mask, against the formula")
claim("without mask: relative error of all but the longest sentence", relative_error(
    forgotten[:7], y[:7]), 0.05)

# %% [markdown]
# ## What padding costs
#
# Scores cost length². Sentences of 3, 1, 3 and 5 words need 9 + 1 + 9 + 25 = 44 scores, and padded
# 4 · 25 = 100. Padded, a batch of B sentences costs B · max², packed it costs Σ n². Let F(l)
# be the share of sentences with at most l words. The longest of B has at most l words if all have:
# with probability F(l)ᴮ. So E[max²] = Σ_l l² (F(l)ᴮ − F(l − 1)ᴮ), and the factor is E[max²]/E[n²].
#
# **Predict:** 256 sentences of chat, 19 words on average. Is the factor closest to 3, 10 or 40?

# %%
chat = [tokenize(pair.response) for chunk in islice(read_rows(default_corpus()), 4)
        for pair in chunk.pairs]
lengths = np.array([min(len(tokens), 256) or 1 for tokens in chat])    # cut as by the library
print(f"{len(lengths):,} sentences: {lengths.mean():.1f} words on average, half have at most "
      f"{np.median(lengths):.0f}, one in a hundred more than {np.percentile(lengths, 99):.0f}")

l = np.arange(257)
at_most = np.searchsorted(np.sort(lengths), l, side="right") / len(lengths)   # F(l): (257,)
derived = np.sum(l[1:]**2 * np.diff(at_most**256)) / np.mean(lengths.astype(float)**2)
batches = rng.choice(lengths, (64, 256)).astype(float)
claim("scores padded / needed for a batch of 256", 256 * np.sum(batches.max(axis=1)**2)
      / np.sum(batches**2), 25, 50)
expect(derived, 33, 37, "the same, derived from the lengths")
eights = np.sort(batches).reshape(64, 32, 8)
expect(8 * np.sum(eights.max(axis=2)**2) / np.sum(batches**2), 1.3, 2.5, "sorted, padded by eights")

# %% [markdown]
# The factor is 35, so 40 was closest. The longest sentence decides the cost of all, and among 256
# there is always a long one. (Programs that sort first and pad in 32 groups of eight pay 1.8.)
#
# ## Groups of equal length
#
# ![Rows are words, columns are cut into q, k, v and heads](pictures/14_packed_heads.svg)
#
# Sentences of equal length form an array without padding. So sort the batch by length. Each run of
# equal lengths is a `Group`: tokens first … last − 1, `length` to each sentence. Rows first:last of
# qkv, reshaped to (sentences, length, 3, h, m), are all heads of all its sentences: no copy.

# %%
ends = lambda lengths: np.concatenate([[0], np.cumsum(lengths)])
drawn = rng.choice(lengths, 256)
claim("groups of 256 sentences, sorted by length; as drawn about 247",
      len(groups(ends(np.sort(drawn)), 8)), 30, 75)
expect(len(groups(ends(drawn), 8)), 230, 256, "and as drawn")

figure, panels = plt.subplots(1, 2, figsize=(11, 4.4), sharey=True)
sample = rng.choice(lengths, 64)
for axes, some in zip(panels, (sample, np.sort(sample))):
    words = np.arange(some.max()) < some[:, None]
    axes.imshow(np.where(words, 1.0, 0.12 * (some is sample)), cmap="Blues", vmin=0, vmax=1,
                aspect="auto", interpolation="nearest")
    axes.set(xlabel="position (dark: a word)", ylabel="sentence of the batch")
panels[0].set_title(f"64 sentences, padded: {1 - words.mean():.0%} of the places are padding")
cuts = np.flatnonzero(np.diff(np.sort(sample))) + 0.5
panels[1].hlines(cuts, -0.5, sample.max() - 0.5, color="C3", linewidth=0.8)
panels[1].set_title(f"Sorted: {len(cuts) + 1} groups between red lines, no padding")
show(figure, "14_many_heads_many_lengths")

# %% [markdown]
# Either order gives the same numbers; sorting just makes far fewer groups. (A group is also cut
# where its scores would pass 2²⁰, so that they stay in the cache.) The check: loop = padded =
# grouped, forwards and backwards, in any order of the sentences.

# %%
drawn = np.minimum(rng.choice(lengths, 64), 60)
for name, some in (("as drawn", drawn), ("sorted", np.sort(drawn))):
    offsets = ends(some)
    qkv, dy = rng.standard_normal((offsets[-1], 36)), rng.standard_normal((offsets[-1], 12))
    y, cache = attention_forward(qkv, offsets, 3)
    loop_y, loop_cache = loop_forward(qkv, offsets, 3)
    expect([relative_error(y, loop_y), relative_error(padded_forward(qkv, offsets, 3), loop_y),
            relative_error(attention_backward(dy, cache), loop_backward(dy, loop_cache))], 0, 1e-13,
           f"{name}: y in groups, y padded, dqkv in groups, against the loop")

# %% [markdown]
# Sorting reorders the batch, and pair i must find its response i again. `sort_by_length` returns
# the order: sentence b of the sorted batch was sentence order[b]. It also returns the places:
# sentence i is now at places[i]. The encoder computes u sorted and takes u[places]. Going
# back, y = x[order] gives dx[order] = dy, that is dx = dy[places]: the sorted u gets du[order].
#
# ## From words to a sentence
#
# At the end each sentence gets the mean of its words: y_b = (1/n_b) Σ x_i over its rows. **Write
# the backward before you read on:** `yours/mean_pool.py`, then `python -m lessons.yours check
# mean_pool`.
#
# Each row has the slope 1/n_b, so it gets dy_b/n_b, with the n of its own sentence. All words of a
# sentence get the same vector.

# %%
packed = Packed(np.arange(9, dtype=np.int32), np.array([0, 4, 5, 7, 9]))       # lengths 4, 1, 2, 2
x, dy = rng.standard_normal((9, 3)), rng.standard_normal((4, 3))
by_hand = (dy / packed.lengths[:, None])[packed.sentence_numbers]              # (4, 3) → (9, 3)
expect(relative_error(by_hand, mean_pool_backward(dy, mean_pool_forward(x, packed)[1])), 0, 1e-14,
       "dy_b/n_b for each word, against the library's")
expect(layer_error(lambda x: mean_pool_forward(x, packed), mean_pool_backward, [x], rng), 0, 1e-8,
       "the library's against differences")

# %% [markdown]
# ### Exercise 1: catch the leak
#
# Below is a right attention, and four that leak: what a sentence gets depends on the rest of its
# batch. Write a test that tells them apart. It may call `attention(qkv, offsets, heads)` as often
# as it likes, on batches of its own. A hint: a forgotten mask leaks only how *long* the others are.
# So it is not enough to change their numbers. And one that does not leak need not be the library's:
# it may scale its output, or differ in the last digit.

# %%
def scaled(qkv, offsets, heads):
    """Right: larger than the library's, with rounding of its own, but it does not leak."""
    y = attention_forward(qkv, offsets, heads)[0]
    return 1.5 * y * (1 + 1e-12 * np.random.default_rng().standard_normal(y.shape))


def one_long_sentence(qkv, offsets, heads):
    """Where the sentences end is ignored."""
    return attention_forward(qkv, [0, len(qkv)], heads)[0]


def no_mask(qkv, offsets, heads):
    return padded_forward(qkv, offsets, heads, masked=False)


def word_before(qkv, offsets, heads, before=1, after=0):
    """Each sentence but the first also looks at the last word of the one before."""
    y = []
    for first, last in zip(offsets, offsets[1:]):
        a, b = max(first - before, 0), min(last + after, len(qkv))
        y.append(attention_forward(qkv[a:b], [0, b - a], heads)[0][first - a:last - a])
    return np.concatenate(y)


def word_after(*given):
    return word_before(*given, before=0, after=1)


def leaks(attention):
    """→ whether a sentence's rows of attention(qkv, offsets, heads) depend on other sentences."""
    raise NotImplementedError


def judge_leaks(leaks, rng):
    for attention in (one_long_sentence, no_mask, word_before, word_after):
        seen = leaks(lambda *given: attention(*given))    # by what it does, not by its name
        assert seen, (f"{attention.__name__} leaks, and your test does not see it; which of the "
                      "sentences does it look at?")
    for attention in (padded_forward, scaled):
        assert not leaks(lambda *given: attention(*given)), (
            f"your test accuses {attention.__name__}, which does not leak; is it the last digit, "
            "or do you compare with the library instead of with the sentence on its own?")


check(1, leaks, judge_leaks)

# %% [markdown]
# ## Where this lives
#
# - `core/attention.py`: `groups`, `attention_forward`, `attention_backward`, `split_heads`.
# - `core/transformer.py`: `sort_by_length`; `transformer_forward` ends with u.take(places),
#   `transformer_backward` starts with du.take(order).
# - The paper, §3.1: 8 heads, 512 wide. Packing without padding is ours; the numbers are the same.
# - To read further: [FlashAttention](https://arxiv.org/abs/2205.14135), whose function for packed
#   sentences takes the same offsets, as `cu_seqlens`.

# %% [markdown]
# ## What you know now
#
# - A head is a slice of the columns: it costs a reshape, and a set of scores to keep.
# - With padding, every sentence costs as much as the longest; a forgotten mask changes all others.
# - Groups of equal length need neither padding nor mask.
#
# Next: lesson 15 stacks layers, six and more, and watches the gradient on its way down.
#
# Solutions, for when you have tried: `lessons/solutions/14_many_heads_many_lengths.py`.
