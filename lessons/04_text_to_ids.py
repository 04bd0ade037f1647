# %% [markdown]
# # 4 · Text to ids: tokens, a vocabulary, and hashing for the rest
#
# **Needs** Python strings, NumPy's fancy indexing, `numeric_gradient` (lesson 2).
# **Gives** `Packed`, the one form in which text travels through this program; how many words a
# vocabulary needs; and a way to give 220,000 word pairs a row each when there are fewer rows than
# pairs.
#
# A model sees no letters. It sees row numbers of a table. Two texts that get the same rows are the
# same text to it, and what falls between the rows is lost before the first gradient flows. So look
# closely at what gets lost.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, expect, plt, seed, show

from collections import Counter
from itertools import islice

import numpy as np

from convsim_mini.core.gradcheck import numeric_gradient, relative_error
from convsim_mini.core.packed import Packed, bigram_buckets, words_and_bigrams
from convsim_mini.core.text import UNKNOWN, Vocabulary, normalize, tokenize
from convsim_mini.data.pairs import read_rows
from convsim_mini.data.tables_and_logs import default_corpus

rng = np.random.default_rng(seed(4))
pairs = (pair for chunk in read_rows(default_corpus()) for pair in chunk.pairs)
# real chat, from the package chitchat-dataset
texts = [pair.input for pair in islice(pairs, 60_000)]
texts = [texts[i] for i in rng.permutation(len(texts))]
print(*[text[:100] for text in texts[:4]], sep="\n")

# %% [markdown]
# ## One spelling for one word
#
# "Don’t" with a typographer's apostrophe, "Don't" with a typewriter's and "do n't" as old corpora
# split it are one word to you and three to a dictionary. `normalize` brings them together before
# anything is cut.

# %%
for text in ("Don’t!", "DON'T!", "do n't!", "Ｄｏｎ'ｔ！"):
    print(f"{text:10} → {normalize(text)}")
    assert normalize(text) == "don't!"

# %% [markdown]
# ## Where to cut
#
# The obvious cut is at white space. Then "home", "home." and "home?!" are three words, each of
# which has to learn by itself what a home is.
#
# **Predict:** 48,000 chat turns hold about 900,000 tokens. How many *different* ones are there when
# you split at white space, and what share of them is left when punctuation stands alone and case is
# gone: nine tenths, three quarters or half?

# %%
split = int(0.8 * len(texts))
train_texts, held_out_texts = texts[:split], texts[split:]
by_space = Counter(word for text in train_texts for word in text.split())
train = [tokenize(text) for text in train_texts]
held_out = [tokenize(text) for text in held_out_texts]
counts = Counter(token for tokens in train for token in tokens)

print(tokenize("I'm home at 12:30!! see https://example.org 👍🏽"))
print(f"white space: {len(by_space):,} different; tokenize: {len(counts):,} different of "
      f"{counts.total():,}")
print("home, cut at white space:",
      *[word for word in by_space if word.lower().strip(".,!?") == "home"])
expect(len(counts) / len(by_space), 0.35, 0.65, "share that is left")

# %% [markdown]
# ## How many words does a vocabulary need?
#
# Words fall off steeply: "i" comes 36,000 times, and of all the different words nearly half come
# once. A table row costs 500 numbers and learns only when its word comes by. So the most frequent
# words get rows, and the rest has to share.
#
# Even a vocabulary with *every* word of the training text meets new ones. How often? Take any one
# token out of the training text. It is now unknown exactly if its word occurred just once. So, with
# N₁ words that occur once among N tokens,
#
# **P(the next token is new) ≈ N₁ / N**
#
# Good and Turing found this in wartime, breaking ciphers. Count first, then open the held-out text.

# %%
once = sum(count == 1 for count in counts.values())
promised = once / counts.total()
tokens = [token for sentence in held_out for token in sentence]
new = np.mean([token not in counts for token in tokens])
print(f"“i” comes {counts['i']:,} times, “home” {counts['home']:,} times, "
      f"“zebra” {counts['zebra']} times")
print(f"{once:,} of {len(counts):,} words occur once; N₁/N promises {promised:.2%} new tokens, "
      f"held out: {new:.2%}")
expect(new / promised, 0.85, 1.2, "measured / promised")

sizes = np.unique(np.logspace(1, np.log10(len(counts)), 30).astype(int))
rank = {word: place for place, (word, _) in enumerate(counts.most_common())}
ranks = np.array([rank.get(token, len(counts)) for token in tokens])
covered = [(ranks < size).mean() for size in sizes]
expect((ranks < 1000).mean(), 0.83, 0.89,
       "tokens among the thousand most frequent words; 6/7 is 0.857")

figure, axes = plt.subplots()
axes.semilogx(sizes, 100 * np.array(covered), "o-", markersize=4)
axes.axhline(100 * (1 - promised), color="k", linestyle=":", label="derived: all, 1 − N₁/N")
axes.axvline(10_000, color="C1", label="10,000 words")
axes.set(xlabel="words in the vocabulary", ylabel="held-out tokens with an id of their own, %",
         title="A thousand words cover six tokens in seven")
show(figure, "04_vocabulary")

# %% [markdown]
# ## A number for each word
#
# `Vocabulary` gives id 0 to "nothing there at all", 1 to the most frequent word, 2 to the next, and
# so on. For words that are in no list one could have a single id, `<unk>`; then "zebrafish" and
# "Gdańsk" would be the same word. We hash them into 1,000 buckets instead: the same unknown word
# always gets the same id, and two different ones get different ids 999 times in 1,000. (The hash is
# `zlib.crc32`. Python's own `hash` draws a secret salt in each process: a model trained today would
# find its words in other buckets tomorrow.)

# %%
vocabulary = Vocabulary.from_counts(counts, 10_000, oov_buckets=1_000)
for token in ("i", "hello", "zebrafish", "gdańsk"):
    print(f"{token:10} id {vocabulary.id(token):6}   {vocabulary.token(vocabulary.id(token))}")

unknown = sorted({token for token in tokens if token not in vocabulary.ids})[:1500]
ids = np.array([vocabulary.id(token) for token in unknown])
same = (np.sum(ids[:, None] == ids[None, :]) - len(ids)) / (len(ids) * (len(ids) - 1))
expect(same * 1_000, 0.9, 1.1,
       "pairs of unknown words that share an id, of 1,000; a good hash has 1")

# %% [markdown]
# ### Exercise 1: break it
#
# crc32 is stable, but it is no secret. Find a word that the vocabulary does not hold and that is,
# to this model, the same word as "zebrafish". Any string of letters will do. How many tries will it
# take, about?

# %%
def double_of(word, vocabulary):
    """→ another word, of lower-case letters a–z, in no list, with the same id."""
    raise NotImplementedError


def judge_double(double_of, rng):
    for word in ("zebrafish", "flibbertigibbet"):
        found = double_of(word, vocabulary)
        assert found != word, "another word, please"
        assert tokenize(found) == [found] and found.isascii() and found.isalpha(), (
            f"{found!r} is not one plain word")
        assert found not in vocabulary.ids, (
            f"{found!r} is in the vocabulary: it has an id of its own")
        assert vocabulary.id(found) == vocabulary.id(word), (
            f"{found!r} has id {vocabulary.id(found)}, {word!r} has {vocabulary.id(word)}; "
            "one word in 1,000 is right")


check(1, double_of, judge_double)

# %% [markdown]
# ## Packed: sentences end to end
#
# Sentences have different lengths. The usual remedy is a rectangle, as wide as the longest
# sentence, filled up with zeros, and a mask to remember which zeros mean nothing. We lay sentences
# end to end and remember where each begins:
#
# sentence b is **ids[offsets[b]:offsets[b + 1]]**

# %%
some = [["how", "are", "you", "?"], ["fine"], [], ["and", "you", "?"]]
by_hand_ids, by_hand_offsets = [], [0]
for tokens_of_one in some:
    # an empty one becomes id 0
    by_hand_ids += [vocabulary.id(token) for token in tokens_of_one] or [UNKNOWN]
    by_hand_offsets.append(len(by_hand_ids))

packed = vocabulary.pack(some)
print("ids    ", packed.ids, "\noffsets", packed.offsets, "\nlengths", packed.lengths)
assert packed.ids.tolist() == by_hand_ids and packed.offsets.tolist() == by_hand_offsets
assert packed.sentence_numbers.tolist() == [0, 0, 0, 0, 1, 2, 3, 3, 3]

train_packed = vocabulary.pack(train)

# %% [markdown]
# ### Exercise 2: read each sentence backwards
#
# Reverse the words of every sentence of a Packed, all sentences at once and without a loop. Word i
# of the array stands in sentence `packed.sentence_numbers[i]`. If its sentence runs from first to
# last, where does the word come from that belongs in its place after the turn?

# %%
def reverse_each(packed):
    """Packed with every sentence reversed; no loop over sentences."""
    raise NotImplementedError


def judge_reverse(reverse_each, rng):
    sentences = [[1, 2, 3, 4], [5], [6, 7], [8, 9, 10]]
    packed = Packed(np.arange(1, 11, dtype=np.int32), np.array([0, 4, 5, 7, 10]))
    found = reverse_each(packed)
    assert found.offsets.tolist() == packed.offsets.tolist(), "sentences stay where they are"
    got = [found.ids[a:b].tolist() for a, b in zip(found.offsets, found.offsets[1:])]
    assert got == [sentence[::-1] for sentence in sentences], f"{sentences} has become {got}"


check(2, reverse_each, judge_reverse)

# %% [markdown]
# ## Word pairs: more of them than rows
#
# A sum of word vectors cannot tell "dog bites man" from "man bites dog". The paper's DAN also gets
# *bigrams*, pairs of neighbours: "not good" is a row of its own. But look how many there are.

# %%
starts = np.ones(len(train_packed.ids), bool)
starts[train_packed.offsets[1:] - 1] = False    # the last word of a sentence starts no bigram
place = np.flatnonzero(starts)
left, right = train_packed.ids[place], train_packed.ids[place + 1]
keys, occurrences = np.unique(left.astype(np.int64) << 32 | right, return_counts=True)
# (n,) distinct pairs
left, right = (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)
n = len(keys)
print(f"{n:,} different bigrams, {np.mean(occurrences == 1):.0%} of them seen once")
expect(n / len(vocabulary.words), 10, 40, "bigrams for each word")

# %% [markdown]
# A dictionary of them would be larger than all else, and on a GPU there are no dictionaries. So a
# hash sends each pair to one of m rows, and whoever lands on the same row shares it. How many have
# to share? The other n − 1 pairs each miss your row with probability 1 − 1/m, so
#
# **P(sharing) = 1 − (1 − 1/m)ⁿ⁻¹ ≈ 1 − e^(−n/m)**
#
# **Predict:** with as many rows as pairs, m = n, does nearly nobody share, a third, or most?
#
# A bad hash does worse. Here is one that looks reasonable, the sum of the two ids: it cannot tell
# "you are" from "are you", and it never reaches more than twice as many rows as there are words,
# however large m is.

# %%
def share_that_share(bucket, m):
    """The share of the distinct bigrams whose bucket (n,) of m holds another one too."""
    return np.mean(np.bincount(bucket, minlength=m)[bucket] > 1)


buckets = (2 ** np.arange(13, 25)).astype(int)
hashed = np.array([share_that_share(bigram_buckets(left, right, m), m) for m in buckets])
summed = np.array([share_that_share((left + right) % m, m) for m in buckets])
derived = 1 - (1 - 1 / buckets) ** (n - 1)

figure, axes = plt.subplots()
axes.semilogx(buckets, 100 * summed, "s-", color="C3", markersize=4, label="left + right")
axes.semilogx(buckets, 100 * hashed, "o", color="C0", label="bigram_buckets")
axes.semilogx(buckets, 100 * derived, "k:", label="derived: 1 − (1 − 1/m)ⁿ⁻¹")
axes.axvline(n, color="C1", label="m = n, as many as bigrams")
axes.set(xlabel="buckets m", ylabel="bigrams that share their bucket, %", ylim=(0, 105),
         title="A good hash shares as little as chance allows")
show(figure, "04_text_to_ids")

expect(np.interp(np.log(n), np.log(buckets), hashed), 0.6, 0.66,
       "m = n: share that share; 1 − 1/e is 0.632")
expect(np.abs(hashed - derived).max(), 0, 0.005, "measured − derived, at most")
expect(summed[-1], 0.9, 1, "left + right, with 16 million buckets")

# %% [markdown]
# Most share. Is that a disaster? Count occurrences instead of pairs. A bucket learns mostly from
# whoever comes most often, and frequent bigrams are few: nearly all they meet is rare company.

# %%
m = 200_000                                                   # TextConfig's default
bucket = bigram_buckets(left, right, m)
in_bucket = np.bincount(bucket, occurrences, minlength=m)     # occurrences that each bucket sees
own = occurrences / in_bucket[bucket]                         # of these, the pair's own
frequent = occurrences >= 100
expect(share_that_share(bucket, m), 0.6, 0.8, "bigrams that share, m = 200,000")
expect(own[frequent].mean(), 0.9, 1,
       "own share of its bucket's occurrences, bigrams seen a hundred times")
expect(own[occurrences == 1].mean(), 0.3, 0.7, "bigrams seen once")

# %% [markdown]
# ## Where is the gradient?
#
# This is the one step without a backward. An id is a whole number: there is no id a little larger
# than 17, and word 18 has nothing to do with word 17. So nothing can be differentiated by an id,
# and no gradient reaches the text. The gradient ends at the *row* that the id picks. What hashing
# does to it can be said: two bigrams that share a bucket read the same row, so the row's gradient
# is the **sum** of both. If dy is the same at each occurrence, then `own`, above, is a bigram's
# share of its row's gradient. Here are two bigrams that share one of 50 rows:

# %%
few = bigram_buckets(left, right, 50)
one_bigram, other = np.flatnonzero(few == few[0])[:2]
table = rng.standard_normal((50, 3))                          # (m, d)
dy = rng.standard_normal((2, 3))                              # for each of the two bigrams
loss = lambda: float((table[few[[one_bigram, other]]] * dy).sum())
gradient = np.zeros_like(table)
gradient[few[0]] = dy[0] + dy[1]
expect(relative_error(gradient, numeric_gradient(loss, table)), 0, 1e-8,
       "gradient of the shared row: the sum of both, against differences")

# %% [markdown]
# ## All rows of a sentence
#
# A DAN's table has the word rows first, the bigram rows behind them. `words_and_bigrams` turns n
# words into 2n − 1 rows, word, bigram, word, …, and never makes a bigram across the end of a
# sentence.

# %%
rows = words_and_bigrams(packed, words=vocabulary.size, buckets=m)
first = packed.ids[:4]                                        # how are you ?
pair = vocabulary.size + bigram_buckets(first[:-1], first[1:], m)
assert rows.ids[:7].tolist() == [first[0], pair[0], first[1], pair[1], first[2], pair[2], first[3]]
assert rows.lengths.tolist() == [2 * length - 1 for length in packed.lengths]

# %% [markdown]
# ## Where this lives
#
# - `core/text.py`: `normalize`, `tokenize`, `stable_hash`, `Vocabulary`. `core/packed.py`:
#   `Packed`, `words_and_bigrams`, `bigram_buckets`. Both read in that order.
# - `config.py`: `TextConfig`, the numbers of words and buckets.
# - The paper, §2.3.1: the DAN averages embeddings of words and bigrams. It names no number of
#   either and does not say how bigrams get their rows; hashing, and the buckets for unknown words,
#   are ours.
#
# ## What you know now
#
# - N₁/N, counted before, is the share of new words that you will meet.
# - Sentences laid end to end need no padding; offsets say where each begins.
# - A good hash collides as rarely as chance, and two bigrams in a row add their gradients.
#
# Next: lesson 5 gives each row its vector, and finds out what happens to gradients when a row is
# met twice.
#
# Solutions, for when you have tried: `lessons/solutions/04_text_to_ids.py`.
