# %% [markdown]
# # 6 · Text to ids: tokens, pieces of words, and hashing for the pairs
#
# **Needs** Python strings, NumPy's fancy indexing.
# **Gives** `Packed`, the one form in which text travels through this program; a vocabulary that has
# pieces for nearly every word; how 230,000 word pairs fit into fewer rows.
# **Time** 45 minutes, in two parts; the second begins at "Pairs: more of them than rows".
#
# A model sees no words, only row numbers of a table, and two texts with the same rows are the same to
# it. What we merge here is gone for good, and what we split must be learned twice. Where should we cut?
#
# **In thirty seconds:** cut at spaces and punctuation, spell rare words with pieces of frequent ones,
# lay all sentences end to end, and let a hash find a row for each pair of neighbours.

# %%
import sys
from collections import Counter
from itertools import islice, pairwise

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.core.packed import bigram_buckets, words_and_bigrams
from convsim_mini.core.text import UNKNOWN, Vocabulary, learn_pieces, tokenize
from convsim_mini.data.pairs import read_rows
from convsim_mini.data.formats import default_corpus

rng = np.random.default_rng(seed(4))
pairs = (pair for chunk in read_rows(default_corpus()) for pair in chunk.pairs)
texts = [pair.input for pair in islice(pairs, 60_000)]        # real chat

# %% [markdown]
# ## Where to cut
#
# The obvious cut is at white space. But then "home", "home." and "home?!" are three words, and each
# has to learn by itself what a home is. So `tokenize` cuts punctuation off and lowercases everything.
# It also gives "Don’t", "Don't" and "do n't" one spelling.
#
# **Predict:** 48,000 chat turns hold about 900,000 tokens. How many *different* ones are there when
# you split at white space? What share of them is left when punctuation is cut off and all letters
# are small: nine tenths, three quarters or half?

# %%
in_order, order, split = list(map(tokenize, texts)), rng.permutation(len(texts)), 48_000
shuffled = [in_order[k] for k in order]
train = shuffled[:split]
by_space = Counter(word for k in order[:split] for word in texts[k].split())
counts = Counter(token for tokens in train for token in tokens)

print(tokenize("I'm home at 12:30!! see https://example.org 👍🏽"))
print(f"white space: {len(by_space):,} different; tokenize: {len(counts):,} different of "
      f"{counts.total():,}")
expect(len(counts) / len(by_space), 0.35, 0.65, "share that is left")

# %% [markdown]
# About half are left.
#
# ## How many words does a vocabulary need?
#
# A few words are frequent and most are rare: "i" occurs 36,000 times, and nearly half of all distinct
# words occur once. A row of the table has 500 numbers, and a row that was seen once has learned from
# one sentence. So frequent words get rows, and the others are put together from pieces.
#
# Even a vocabulary with *every* word of the training text meets new ones. How often? Take any one
# token out of the training text. It would be unknown exactly if its word occurs nowhere else. So,
# where N₁ words occur once among N tokens (Good and Turing),
#
# **P(the next token is new) ≈ N₁ / N**
#
# That assumes that the next token is drawn like those before, so we shuffle the turns before the split.
# In real conversations the subject changes: unshuffled, the held-out fifth talks about other things.
#
# **Predict:** is N₁/N then too small or too large?

# %%
fifth = (4 + seed(0) // 1_000) % 5    # which fifth is held out: the last, or that of the seed


def promised_and_met(turns):
    """N₁/N of four fifths of the turns; the share of new tokens in the other."""
    begin, end = fifth * len(turns) // 5, (fifth + 1) * len(turns) // 5
    counts = Counter(token for turn in turns[:begin] + turns[end:] for token in turn)
    rest = [token for turn in turns[begin:end] for token in turn]
    once = sum(count == 1 for count in counts.values())
    return once / counts.total(), np.mean([token not in counts for token in rest])


figure, axes = plt.subplots()
for name, turns, color, low, high in (("shuffled", shuffled, "C2", 0.85, 1.15),
                                      ("in order", in_order, "C3", 1.15, np.inf)):
    sizes = 60_000 >> np.arange(6)
    of_sizes = 100 * np.array([                               # (6, 2): means of all runs of a size
        np.mean([promised_and_met(turns[k:k + size]) for k in range(0, len(turns), size)], axis=0)
        for size in sizes])
    for line, what, values in zip((":", "o-"), ("promised, N₁/N", "met"), of_sizes.T):
        axes.semilogx(sizes, values, line, color=color, label=f"{name}: {what}")
    promised, new = of_sizes[0]
    print(f"{name}: N₁/N promises {promised:.2f}% new tokens, held out: {new:.2f}%")
    claim(f"new tokens, met / promised, turns {name}", new / promised, low, high)
axes.minorticks_off()
axes.set(xlabel="turns, four fifths of them read", ylabel="new tokens in the other fifth, mean %",
         xticks=sizes, xticklabels=[f"{size:,}" for size in sizes],
         title="Shuffled, N₁/N nearly keeps its promise; in order the subject has changed")
show(figure, "06_new_words")

known = {word for word, _ in counts.most_common(1_000)}
missed = [[word not in known for word in turn] for turn in shuffled[split:]]
print(f"of 1,000 words: {np.mean([one for turn in missed for one in turn]):.0%} of the words are "
      f"unknown, {np.mean([any(turn) for turn in missed]):.0%} of the turns lose at least one")

# %% [markdown]
# Too small: the last fifth has 38% more new tokens than N₁/N promises, the other fifths 22 to 42%.
# (The five seeds of the table below each hold out another fifth.) What does an unknown word cost? With
# the 1,000 most frequent words 13% are unknown, but three of four turns lose one, and often the word
# that says what the turn is about.
#
# ## Pieces of words
#
# Nobody has seen "unfriendly" often, but everybody knows "un", "friend" and "ly". So at first each
# character is a piece; "##" marks one that does not begin a word. Then the most frequent pair of
# neighbours becomes one piece, everywhere, again and again (byte-pair encoding, Sennrich et al.
# 2016). `Vocabulary` gives id 0 to an empty sentence, 1 to the most frequent piece, and so on. It
# splits a word from left to right, each time by the longest piece that fits. (That is WordPiece's way;
# BPE itself would repeat its merges in order.)
#
# **Predict:** which two are merged first in these seven words?

# %%
toy = Counter(friend=30, girlfriend=20, boyfriend=20, unkind=15, unfair=15, kindly=10, fairly=10)
spelled = {word: [word[0], *("##" + letter for letter in word[1:])] for word in toy}
together = Counter(p for word, number in toy.items() for p in number * [*pairwise(spelled[word])])
(pair, times), = together.most_common(1)
merges = [piece for piece in learn_pieces(toy, 60) if len(piece.removeprefix("##")) > 1]
print(*pair, f"are neighbours {times} times, so the first of {len(merges)} merges is {merges[0]}")
word = spelled["girlfriend"]
for piece in merges:    # wherever two neighbours make this piece
    for k in range(len(word) - 2, -1, -1):
        if word[k] + word[k + 1].removeprefix("##") == piece:
            word[k:k + 2] = [piece]
            print("   ", *word)

vocabulary = Vocabulary.of_pieces(counts, 10_000)
for word in ("hello", "unfriendly", "zebrafish", "gdańsk"):
    print(f"{word:10}", *map(vocabulary.token, vocabulary.split(word)))
ids = [vocabulary.split(token) for turn in shuffled[split:] for token in turn]
expect(np.mean([UNKNOWN in pieces for pieces in ids]), 0, 5e-4,
       "share of the held-out words that pieces cannot spell")
claim("pieces for each held-out word", np.mean([len(pieces) for pieces in ids]), high=1.15)

# %% [markdown]
# "##n" and "##d" are. Only a word with a character that is not a piece, as in "gdańsk", gets the id 0.
#
# ### Exercise 1: cut a word into pieces
#
# Write this split. (Why does "zebrafish" end in ##ish, although ##fish is a piece as well?)

# %%
def split_word(word, pieces):
    """pieces: a set, with "##" for those inside a word → list of pieces; [] if one is missing."""
    raise NotImplementedError


def judge_split(split_word, rng):
    toy = Vocabulary.of_words(Counter("a b c ##a ##b ##c ab abc ##bc ##bca ##ca ##cab".split()))
    for known, words in ((toy, "c abcabca bca bab cabcab aabca abx xa".split()),
                         (vocabulary, ["gdańsk", *rng.choice(list(counts), 100)])):
        pieces = set(known.pieces)
        for word in words:
            expected = [known.token(i) for i in known.split(word) if i != UNKNOWN]
            found = list(split_word(str(word), pieces))
            assert found == expected, (
                f"“{word}” is {expected}, not {found}; is each piece the longest that fits where "
                "the one before ended, and marked by ## unless it begins the word?")


check(1, split_word, judge_split)

# %% [markdown]
# ## Packed: sentences end to end
#
# Sentences differ in length. The usual way is a rectangle as wide as the longest sentence, filled up
# with zeros, and a mask that marks the padding. We lay them end to end and note where each begins:
#
# sentence b is **ids[offsets[b]:offsets[b + 1]]**
#
# ![Sentences end to end with their offsets, and the padded rectangle](pictures/06_packed.svg)

# %%
some = [["how", "are", "you", "?"], ["fine"], [], ["and", "you", "?"]]
packed = vocabulary.pack(some)
print("ids    ", packed.ids, "\noffsets", packed.offsets, "\nlengths", packed.lengths)
assert packed.ids[5] == UNKNOWN                               # an empty sentence becomes id 0
assert packed.sentence_numbers.tolist() == [0, 0, 0, 0, 1, 2, 3, 3, 3]

# %% [markdown]
# ## Pairs: more of them than rows
#
# A sum of word vectors cannot tell "dog bites man" from "man bites dog". So the paper's DAN also gets
# *bigrams*, pairs of neighbours: "not good" has a row of its own. How many are there?

# %%
train_packed = vocabulary.pack(train)
starts = np.ones(len(train_packed.ids), bool)
starts[train_packed.offsets[1:] - 1] = False    # the last word of a sentence starts no bigram
place = np.flatnonzero(starts)
left, right = train_packed.ids[place], train_packed.ids[place + 1]
keys, occurrences = np.unique(left.astype(np.int64) << 32 | right, return_counts=True)
left, right = (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)  # distinct
n = len(keys)
print(f"{n:,} different bigrams, {np.mean(occurrences == 1):.0%} of them seen once")
expect(n / len(vocabulary.pieces), 10, 40, "bigrams for each piece")

# %% [markdown]
# A dictionary of them would be large, and awkward on a GPU. So a hash sends each pair to one of m
# rows, and pairs that land on the same row share it. How many will? The other n − 1 pairs each miss
# your row with probability 1 − 1/m (with three pairs and two rows, both miss you with ½ · ½ = ¼), so
#
# **P(sharing) = 1 − (1 − 1/m)ⁿ⁻¹ ≈ 1 − e^(−n/m)**
#
# **Predict:** with as many rows as pairs, m = n, how many pairs share one: almost none, a third, most?
#
# A bad hash does worse. For comparison we take the sum of the two ids. It cannot tell "you are"
# from "are you", and it reaches at most twice as many rows as there are pieces.

# %%
def share_that_share(bucket, m):
    """The share of the distinct bigrams whose bucket (n,) of m holds another one too."""
    return np.mean(np.bincount(bucket, minlength=m)[bucket] > 1)


buckets = (2 ** np.arange(13, 25)).astype(int)
hashed = np.array([share_that_share(bigram_buckets(left, right, m), m) for m in buckets])
summed = np.array([share_that_share((left + right) % m, m) for m in buckets])
derived = 1 - (1 - 1 / buckets) ** (n - 1)

figure, of_hash = plt.subplots()
of_hash.semilogx(buckets, 100 * summed, "s-", color="C3", markersize=4, label="left + right")
of_hash.semilogx(buckets, 100 * hashed, "o", color="C0", label="bigram_buckets")
of_hash.semilogx(buckets, 100 * derived, "k:", label="derived: 1 − (1 − 1/m)ⁿ⁻¹")
of_hash.axvline(n, color="C1", label="m = n, as many as bigrams")
of_hash.set(xlabel="buckets m", ylabel="bigrams that share their bucket, %", ylim=(0, 105),
            title="A good hash shares as little as chance allows")
show(figure, "06_text_to_ids")

claim("m = n: share of the bigrams that share a row; 1 − 1/e is 0.632",
      np.interp(np.log(n), np.log(buckets), hashed), 0.6, 0.66)
expect(np.abs(hashed - derived).max(), 0, 0.005, "measured − derived, at most")
expect(summed[-1], 0.9, 1, "left + right, with 16 million buckets")

# %% [markdown]
# Most share: 63%. That sounds like a disaster. But a row learns mostly from its most frequent bigram,
# and nearly everyone who shares it is rare. So count occurrences instead of pairs.

# %%
m = 200_000                                                   # TextConfig's default
bucket = bigram_buckets(left, right, m)
in_bucket = np.bincount(bucket, occurrences, minlength=m)     # occurrences that each bucket sees
own = occurrences / in_bucket[bucket]                         # of these, the pair's own
claim("own share of its bucket's occurrences, bigrams seen a hundred times",
      own[occurrences >= 100].mean(), 0.9)
expect(own[occurrences == 1].mean(), 0.3, 0.7, "bigrams seen once")

# %% [markdown]
# A frequent bigram has its row nearly to itself, and a rare one had little to learn anyway.
#
# ## All rows of a sentence
#
# A DAN's table has the pieces' rows first and the bigrams' rows after them. `words_and_bigrams` turns
# n ids into 2n − 1 rows, piece, bigram, piece, …, with no bigram across the end of a sentence.

# %%
rows = words_and_bigrams(packed, words=vocabulary.size, buckets=m)
first = packed.ids[:4]                                        # how are you ?
pair = vocabulary.size + bigram_buckets(first[:-1], first[1:], m)
assert rows.ids[:7].tolist() == [first[0], pair[0], first[1], pair[1], first[2], pair[2], first[3]]
assert rows.lengths.tolist() == [2 * length - 1 for length in packed.lengths]

# %% [markdown]
# ## Where this lives
#
# - `core/text.py`: `normalize`, `tokenize`, `learn_pieces`, `Vocabulary`. `core/packed.py`: `Packed`,
#   `words_and_bigrams`, `bigram_buckets`. Read them in that order.
# - `minimal.py`: `rows_of` is `words_and_bigrams`, for lists of ids.
# - [The paper](https://arxiv.org/abs/1804.07754), §2.3.1: the DAN averages embeddings of words and
#   bigrams. It does not say how bigrams get their rows; hashing, and pieces of words, are ours.
# - To read further: [Karpathy's minbpe](https://github.com/karpathy/minbpe), byte pairs step by step,
#   and [Sennrich et al.](https://aclanthology.org/P16-1162/), who brought them to translation.

# %% [markdown]
# ## Claims
#
# Over five seeds, as `python -m lessons.claims 6` prints it. The last column says which values would refute the claim.
#
# | claim | mean ± sd | least to most | refuted |
# | --- | --- | --- | --- |
# | new tokens, met / promised, turns shuffled | 1.03 ± 0.02 | 1.01 to 1.05 | below 0.85, above 1.15 |
# | new tokens, met / promised, turns in order | 1.3 ± 0.1 | 1.22 to 1.42 | below 1.15 |
# | pieces for each held-out word | 1.06 ± 0.0007 | 1.06 to 1.06 | above 1.15 |
# | m = n: share of the bigrams that share a row; 1 − 1/e is 0.632 | 0.63 ± 0.0008 | 0.629 to 0.631 | below 0.6, above 0.66 |
# | own share of its bucket's occurrences, bigrams seen a hundred times | 0.982 ± 0.0008 | 0.981 to 0.983 | below 0.9 |

# %% [markdown]
# ## What you know now
#
# - N₁/N is the share of words that will be new, in texts drawn like these; pieces spell those, too.
# - Sentences laid end to end need no padding; offsets say where each begins.
# - A good hash collides as rarely as chance, and a frequent bigram hardly notices.
#
# Next: lesson 7 gives each row its vector, and asks what happens when a sentence uses a row twice.
#
# Solutions, for when you have tried: `lessons/solutions/06_text_to_ids.py`.
