# %% [markdown]
# # 6 · Text to ids: tokens, pieces of words, and rows for frequent pairs
#
# **Needs** Python strings, NumPy's fancy indexing.
# **Gives** `Packed`, the one form in which text travels through this program; a vocabulary that has
# pieces for nearly every word; which of 230,000 word pairs earn a row of their own.
# **Time** 40 minutes, in two parts; the second begins at "Pairs: which ones earn a row".
#
# A model sees no words, only row numbers of a table, and two texts with the same rows are the same to
# it. What we merge here is gone for good, and what we split must be learned twice. Where should we cut?
#
# **In thirty seconds.** Cut at spaces and punctuation, spell rare words with pieces of frequent ones,
# lay all sentences end to end, and give the most frequent pairs of neighbours a row each.

# %%
import sys
from collections import Counter
from itertools import islice, pairwise

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.core.packed import bigram_keys, frequent_bigrams, words_and_bigrams
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


for name, turns, low, high in (("shuffled", shuffled, 0.85, 1.15), ("in order", in_order, 1.15, np.inf)):
    promised, new = promised_and_met(turns)
    print(f"{name}: N₁/N promises {promised:.2%} new tokens, held out: {new:.2%}")
    claim(f"new tokens, met / promised, turns {name}", new / promised, low, high)

known = {word for word, _ in counts.most_common(1_000)}
missed = [[word not in known for word in turn] for turn in shuffled[split:]]
print(f"of 1,000 words: {np.mean([one for turn in missed for one in turn]):.0%} of the words are "
      f"unknown, {np.mean([any(turn) for turn in missed]):.0%} of the turns lose at least one")

# %% [markdown]
# Too small: the last fifth has 38% more new tokens than N₁/N promises, the other fifths 22 to 42%.
# (The five seeds of claims.md hold out each fifth once.) What does an unknown word cost? With
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
# Write this split. (Why does "zebrafish" end in ##ish with the default seed, although ##fish is a piece?)

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
# ## Pairs: which ones earn a row
#
# A sum of word vectors cannot tell "dog bites man" from "man bites dog". So the paper's DAN also gets
# *bigrams*, pairs of neighbours: "not good" has a row of its own. How many are there?

# %%
def keys_of(packed):
    """left · size + right of each two neighbours in a sentence: int64, all occurrences."""
    inside = np.ones(len(packed.ids), bool)
    inside[packed.offsets[1:] - 1] = False    # the last word of a sentence starts no bigram
    return bigram_keys(packed.ids[:-1], packed.ids[1:], vocabulary.size)[inside[:-1]]


train_packed, held_out = (vocabulary.pack(turns) for turns in (train, shuffled[split:]))
keys, times = np.unique(keys_of(train_packed), return_counts=True)
n, once = len(keys), times == 1
print(f"{n:,} different bigrams, {once.mean():.0%} of them seen once; a row of 500 numbers for each: "
      f"{n * 500 * 4 / 1e6:.0f} MB")
expect(n / len(vocabulary.pieces), 10, 40, "bigrams for each piece")

# %% [markdown]
# **Predict:** only the 10,000 most frequent get a row, one in 23. What share of all *occurrences* of
# bigrams then has one: 4%, a third, more than half? And in turns that were held out?

# %%
most = np.argsort(-times, kind="stable")                      # frequent ones first
rank = np.empty(n, np.int64)
rank[most] = np.arange(n)
new_keys = keys_of(held_out)
place = np.searchsorted(keys, new_keys).clip(max=n - 1)       # binary search in sorted keys
known = keys[place] == new_keys
numbers = np.array([1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, n])
in_train = np.array([times[most[:number]].sum() for number in numbers]) / times.sum()
in_new = np.array([(known & (rank[place] < number)).mean() for number in numbers])
promised = 1 - once.sum() / times.sum()                       # Good and Turing once more

figure, axes = plt.subplots()
axes.semilogx(numbers, 100 * in_train, "o-", color="C0", label="of the text that was counted")
axes.semilogx(numbers, 100 * in_new, "s-", color="C3", label="of turns held out")
axes.axhline(100 * promised, color="k", linestyle=":", label="derived: 1 − N₁/N")
axes.axvline(10_000, color="C1", label="our default")
axes.set(xlabel="the most frequent bigrams that have a row", ylim=(0, 105),
         ylabel="occurrences of bigrams with a row, %",
         title="A twentieth of the rows serves more than half of a new text's bigrams")
show(figure, "06_text_to_ids")

at = list(numbers).index(10_000)
print(f"of the bigrams held out {in_new[at]:.1%} have one of 10,000 rows, {in_new[-1]:.1%} one of {n:,}")
claim("10,000 rows: share of the held-out bigrams that have one", in_new[at], 0.5, 0.6)
claim("the same / in the text that was counted", in_new[at] / in_train[at], 0.94, 1.02)
claim("a row for each bigram: share held out / (1 − N₁/N)", in_new[-1] / promised, 0.97, 1.03)
met = np.isin(keys, new_keys)
claim("bigrams seen once: share that the held-out turns meet", met[once].mean(), high=0.12)
claim("bigrams among the 10,000: share that they meet", met[most[:10_000]].mean(), low=0.9)

# %% [markdown]
# 55% of the occurrences have a row, nearly as many as in the turns that were counted (56%). The other 221,194 rows,
# 442 MB of them, would serve another 28%. And two of three are for a bigram seen once. Such a row learns
# from a single sentence, and only one in eleven is met again in the fifth held out. It has not learned
# what the bigram means, but where it stood. So a bigram earns its row by being frequent; the others
# are the sum of their two words.
#
# ## All rows of a sentence
#
# How does a program find the row of "not good" among 10,000? Each bigram gets one whole number as its
# key, left · size + right. The keys that have a row are kept in ascending order, and the place of a key
# among them, found by binary search, is its row. Fourteen comparisons find one of 10,000, NumPy's
# `searchsorted` does a whole batch at once, and CuPy has it, too.
#
# A DAN's table has the pieces' rows first and the bigrams' rows after them. `words_and_bigrams` turns
# ids into rows: piece, bigram, piece, …, with no bigram across the end of a sentence.
#
# **Predict:** which neighbours in "not good , the dog bites a man" are among the 10,000?

# %%
bigrams = frequent_bigrams(train_packed, vocabulary.size, 10_000)         # ascending keys
assert np.array_equal(bigrams, np.sort(keys[most[:10_000]]))
rows = words_and_bigrams(vocabulary.pack([tokenize("Not good, the dog bites a man")]),
                         vocabulary.size, bigrams)
for row in rows.ids:
    ids = [row] if row < vocabulary.size else divmod(bigrams[row - vocabulary.size], vocabulary.size)
    print(f"{row:6}", *map(vocabulary.token, ids))
expect(rows.lengths[0] - 9, 2, 7, "bigrams that have a row, of eight")

# %% [markdown]
# All but "dog bite" and "bite ##s": the other six are among the 10,000.
#
# ## Where this lives
#
# - `core/text.py`: `normalize`, `tokenize`, `learn_pieces`, `Vocabulary`. `core/packed.py`: `Packed`,
#   `words_and_bigrams`, `frequent_bigrams`. Read them in that order.
# - `minimal.py`: `rows_of` is `words_and_bigrams`, for a list of words and a dictionary.
# - [The paper](https://arxiv.org/abs/1804.07754), §2.3.1: the DAN averages embeddings of words and
#   bigrams. It does not say which bigrams get a row; the most frequent, and pieces of words, are ours.
# - To read further: [Karpathy's minbpe](https://github.com/karpathy/minbpe), byte pairs step by step,
#   and [Sennrich et al.](https://aclanthology.org/P16-1162/), who brought them to translation.

# %% [markdown]
# ## What you know now
#
# - N₁/N is the share of words that will be new, in texts drawn like these; pieces spell those, too.
# - Sentences laid end to end need no padding; offsets say where each begins.
# - A row that one sentence taught remembers that sentence: frequent bigrams get rows, others do not.
#
# Next: lesson 7 gives each row its vector, and asks what happens when a sentence uses a row twice.
#
# Solutions, for when you have tried: `lessons/solutions/06_text_to_ids.py`.
