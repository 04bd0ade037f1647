# %% [markdown]
# # 0 · Top down: what it does, and where it fails
#
# **Needs** nothing. **Gives** a trained run to play with: load it, compare, search, pick replies,
# and see it fail. You leave with a list of questions; the table at the end says which lesson
# answers which.
#
# The other lessons go from one derivative up to the whole encoder. This one goes the other way. It
# uses the encoder as you would use any library. Nothing is explained yet. Watch, and collect what
# you do not understand.

# %%
import sys

# a notebook or a console may have started in this folder or in the one above
sys.path += [".", "lessons"]
from lesson import HERE, check, expect, plt, show

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

import convsim_mini
from convsim_mini.common.cli import UserError
from convsim_mini.config import Config, ModelConfig, OptimConfig, TextConfig
from convsim_mini.data.corpus import Corpus, Split, split_of, text_key
from convsim_mini.data.pairs import default_corpus, read_chunks, removed_by
from convsim_mini.data.text import Vocabulary, tokenize
from convsim_mini.evaluation.baselines import bag_cosine
from convsim_mini.evaluation.metrics import pearson, pearson_interval, true_ranks
from convsim_mini.evaluation.sts import OWN, read
from convsim_mini.inference.index import nearest
from convsim_mini.model.initial import initial_model
from convsim_mini.model.input_response import embed
from convsim_mini.model.projection import all_but_the_top
from convsim_mini.training.run import (
    load_run, save_checkpoint, save_config, save_matrix, save_vocabulary,
)
from convsim_mini.training.loop import train_step
from convsim_mini.training.optim import Adaptive
from convsim_mini.training.schedule import Tasks, batches

# %% [markdown]
# ## A run
#
# `python -m convsim_mini.train` reads real chats, trains for one to three minutes, and leaves a
# folder, `runs/chat`. If you have it and it can be read, this lesson takes it; what it prints is
# then your run's, and no range is checked. If not, the lesson makes a small one here: a third of
# the chats, 200 numbers for each sentence instead of 500, 100 steps instead of 1,000. Do not read
# the next cell yet. It is what the other lessons are about.

# %%
PAIRS = 40_000


def some_chat():
    """Real chats: a Corpus to train on, and pairs (message, reply) that training never sees."""
    sentences, keys, held_out = {"train": [], "dev": []}, {"train": [], "dev": []}, []
    for chunk in read_chunks(default_corpus()):
        for pair in chunk.records:
            if not (removed_by(pair.input) or removed_by(pair.response)):
                sides = [tokenize(pair.input), tokenize(pair.response)]
                pair_keys = [text_key(" ".join(tokens)) for tokens in sides]
                if (split := split_of(pair_keys[0])) in keys:
                    sentences[split] += sides
                    keys[split].append(pair_keys)
                if split == "dev":
                    held_out.append((pair.input, pair.response))
        if len(keys["train"]) >= PAIRS:
            break
    counts = Counter(token for tokens in sentences["train"] for token in tokens)
    vocabulary = Vocabulary.from_counts(counts, 8_000, 500)
    splits = [Split(*vocabulary.pack(sentences[name]), np.array(keys[name], np.uint64))
              for name in ("train", "dev")]
    return Corpus(vocabulary, *splits, splits[1], report={}, checksum=0), held_out


def make_run(folder, corpus):
    """Train for some seconds and write a run's folder."""
    config = Config(text=TextConfig(8_000, 500, 20_000), steps=100, seed=1,
                    model=ModelConfig(embedding_dim=200, layers=[200]),
                    optim=OptimConfig(batch_size=256, warmup=10))
    model = initial_model(config, corpus)
    optimizer = Adaptive(model.params)
    for step, batch in zip(range(config.steps), batches(config, Tasks(corpus.train, None, None))):
        train_step(config, model, optimizer, step, batch)
    save_config(folder, config)
    save_vocabulary(folder, corpus)
    save_checkpoint(folder, config, config.steps, model.params, optimizer.state)
    vectors = embed(model, corpus.train.sentences(np.arange(5_000)))
    save_matrix(load_run(folder), "all_but_the_top", all_but_the_top(vectors))


corpus, held_out = some_chat()
with tempfile.TemporaryDirectory() as folder:
    run = HERE.parent / "runs" / "chat"
    try:
        encoder = convsim_mini.load(run)
    except UserError as error:    # there is none, or it is not finished
        print(f"a small run, because: {error}")
        run = Path(folder)
        make_run(run, corpus)
        encoder = convsim_mini.load(run)
    for path in sorted(run.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")
    small = run == Path(folder)
print(encoder)


def measured(value, low, high, what):
    """`expect` for the small run; a run of your own has other numbers."""
    if small:
        expect(value, low, high, what)
    else:
        print(f"{what}: {value:.4g}   (the small run: {low:.4g} to {high:.4g})")

# %% [markdown]
# ## Sentences in, vectors out

# %%
vectors = encoder.encode(["How old are you?", "What is your age?", "How are you?"])
print("first numbers of the first:", np.round(vectors[0, :5], 3))
expect(vectors.shape[0], 3, 3, f"vectors, each of {vectors.shape[1]} numbers")
expect(np.abs((vectors**2).sum(axis=1) - 1).max(), 0, 1e-5, "squared length less 1")

# %% [markdown]
# All vectors have length 1, so their dot product is the cosine of the angle between them: 1 for
# equal directions, 0 for a right angle.
#
# **Predict:** of "How old are you?", "What is your age?" and "How are you?", which two are nearest?
# Two mean the same and share no word. Two share words and mean different things.

# %%
cosines = encoder.similarity(vectors, vectors)
print(np.round(cosines, 2))
measured(cosines[0, 1], 0.05, 0.6, "How old are you?   What is your age?")
measured(cosines[0, 2], cosines[0, 1], 0.8, "How old are you?   How are you?")
measured(cosines[1, 2], -0.3, cosines[0, 1], "What is your age?   How are you?")

# %% [markdown]
# It has learned something: the two questions about age are nearer than "What is your age?" and "How
# are you?", and neither pair shares a word that matters. And it has not learned enough: shared
# words still win.
#
# ## Does it agree with people?
#
# 120 pairs of sentences were scored by hand from 0 (unrelated) to 5 (the same). Pearson's r says
# how well the cosine follows the scores: 1 perfectly, 0 not at all. Beside it: the cosine of the
# two sets of words, which has learned nothing.
#
# **Predict:** which one is better, and is that sure?

# %%
own = read(OWN)
cosine = (encoder.encode(own.sentences1) * encoder.encode(own.sentences2)).sum(axis=1)
words_alone = np.array(list(map(bag_cosine, own.sentences1, own.sentences2)))
for name, scores in (("the encoder", cosine), ("words alone", words_alone)):
    between = "{:.2f} to {:.2f}".format(*pearson_interval(scores, own.labels))
    measured(pearson(scores, own.labels), 0.3, 0.9, f"{name}: r, 95% interval {between}")

# %% [markdown]
# The intervals overlap. Does the encoder win, or is it luck? And how many pairs would settle it?
#
# ## Search
#
# All replies that training has not seen, and a question. The nearest replies are the answer.

# %%
replies = list(dict.fromkeys(reply for _, reply in held_out))
reply_vectors = encoder.encode(replies)
questions = ["Do you have a dog?", "I am so tired today.", "What music do you like?"]
for question, hits in zip(questions, nearest(encoder.encode(questions),
                                             [(reply_vectors, replies)], top=3)):
    print(question)
    for cosine_, _, line in hits:
        print(f"    {cosine_:.2f}  {line[:90]}")

# %% [markdown]
# ### Exercise 1: search in three lines
#
# Write it from `encoder.encode` and NumPy alone.

# %%
def search(question, lines, top):
    """→ the `top` lines whose vectors have the largest cosine with the question's, best first."""
    raise NotImplementedError


def judge_search(search):
    lines = replies[:300]
    for question in questions:
        right = [line for _, _, line in nearest(encoder.encode([question]),
                                                [(reply_vectors[:300], lines)], top=4)[0]]
        found = list(search(question, lines, 4))
        assert len(found) == 4, f"{len(found)} lines, expected 4"
        assert set(found) == set(right), f"{question!r}: these are not the nearest: {found[0]!r} …"
        assert found == right, f"{question!r}: the right lines, but not the best first"


check(1, search, judge_search)

# %% [markdown]
# ## Pick the true reply
#
# It was never told what sentences mean. It was shown messages and replies, and had to find the true
# reply among others. On messages that it has not seen: is the true reply the nearest of 100?
#
# **Predict:** guessing is right in 1%. And the encoder? 5%, 20%, 80%?

# %%
rng = np.random.default_rng(0)
asked = held_out[:1_000]
messages = encoder.encode([message for message, _ in asked])
answers = encoder.encode([reply for _, reply in asked])
wrong = (np.arange(1_000)[:, None] + rng.integers(1, 1_000, (1_000, 99))) % 1_000
candidates = np.concatenate([np.arange(1_000)[:, None], wrong], axis=1)       # the true one first
ranks = true_ranks(np.einsum("ie,ike->ik", messages, answers[candidates]))
measured(100 * (ranks == 1).mean(), 12, 40, "the true reply is the nearest of 100, per cent")
measured(100 * (ranks <= 10).mean(), 30, 75, "… among the ten nearest; guessing: 10")
(hub, times), = Counter((messages @ reply_vectors.T).argmax(axis=1)).most_common(1)
print(f"the nearest reply of {times} of the 1,000 messages: {replies[hub][:60]}")
for i in np.flatnonzero(ranks > 90)[:3]:
    print(f"rank {ranks[i]} of 100:  {asked[i][0][:70]}  →  {asked[i][1][:70]}")

# %% [markdown]
# Right twenty times as often as a guess, and wrong four times in five. Look at the failures: would
# you have known?
#
# ## See it fail
#
# **Predict** each cosine before you run: near 1, in the middle, or near 0?

# %%
probes = {
    "not": ("I love my dog.", "I do not love my dog."),
    "order": ("The dog bit the man.", "The man bit the dog."),
    "opposite": ("I like this movie.", "I hate this movie."),
    "number": ("I was born in 1990.", "I was born in 1890."),
    "other words": ("What is your job?", "What do you do for a living?"),
    "idiom": ("Can you help me?", "Could you give me a hand?")}
probed = {}
for name, (a, b) in probes.items():
    probed[name] = float(encoder.encode(a) @ encoder.encode(b))
    print(f"{probed[name]:6.2f}  {name:12} {a}  |  {b}")
measured(probed["not"], 0.75, 1, "a sentence and its negation")
measured(probed["order"], 0.9, 1, "who bit whom")
measured(probed["idiom"], -0.1, 0.6, "the same request, in other words")

# %% [markdown]
# It is worse than "not perfect". A sentence and its *negation* are nearly the same point. Two
# requests that mean the same are nearly unrelated. The 120 pairs show the same: these are the ones
# where cosine and people differ the most.

# %%
standard = lambda x: (x - x.mean()) / x.std()
gap = standard(cosine) - standard(own.labels)
order = np.argsort(gap)
for title, some in (("too near", order[::-1][:4]), ("too far apart", order[:4])):
    print(title)
    for i in some:
        print(f"    people {own.labels[i]:.1f} of 5, cosine {cosine[i]:.2f}:  "
              f"{own.sentences1[i][:60]}  |  {own.sentences2[i][:60]}")

# %% [markdown]
# ### Exercise 2: fool it
#
# Find two sentences that differ by a negation ("not", "never", "no", "nothing", or a word with
# "n't") and whose cosine is 0.9 or more.

# %%
def fooled():
    """→ two sentences."""
    raise NotImplementedError


def judge_fooled(fooled):
    sides = [set(tokenize(sentence)) for sentence in fooled()]
    negation = {"not", "never", "no", "nothing"}
    negated = [any(word in negation or word.endswith("n't") for word in side) for side in sides]
    assert sum(negated) == 1, f"{sum(negated)} of the two are negated, expected one"
    a, b = encoder.encode(list(fooled()))
    assert a @ b >= 0.9, (f"the cosine is {a @ b:.2f}: how much may one word count among "
                          f"{len(sides[0] | sides[1])}?")


check(2, fooled, judge_fooled)

# %%
eight = ["How old are you?", "What is your age?", "I love my dog.", "I do not love my dog.",
         "The dog bit the man.", "The man bit the dog.", "Can you help me?",
         "Could you give me a hand?"]
figure, (left, right) = plt.subplots(1, 2, figsize=(13.5, 6))
matrix = encoder.similarity(encoder.encode(eight), encoder.encode(eight))
left.imshow(matrix, vmin=-1, vmax=1)
left.grid(False)
for row, column in np.ndindex(matrix.shape):
    left.text(column, row, f"{matrix[row, column]:.1f}".replace("-0.0", "0.0"), ha="center",
              va="center", fontsize=8,
              color="white" if matrix[row, column] > 0.6 else "black")
left.set_yticks(range(8), [f"{sentence}  {k}" for k, sentence in enumerate(eight, 1)],
                fontsize=9)
left.set_xticks(range(8), range(1, 9))
left.set(xlabel="the same eight, by number", ylabel="sentence",
         title="Cosines: “not” and the order of words\nhardly count, another wording does")
right.plot(own.labels, cosine, "o", color="C7", alpha=0.6)
for some, color in ((order[::-1][:4], "C3"), (order[:4], "C0")):
    for i, mark in zip(some, "osD^"):
        label = min(own.sentences1[i], own.sentences2[i], key=len)
        right.plot(own.labels[i], cosine[i], mark, color=color, label=label[:40])
right.set(xlabel="people's score, 0 (unrelated) to 5 (the same)", ylabel="cosine",
          title=f"120 pairs, r = {pearson(cosine, own.labels):.2f}: it follows people,\n"
                "with exceptions that have reasons")
figure.legend(loc="outside lower right", ncols=2, fontsize=8,
              title="too near in red, too far apart in blue")
show(figure, "00_top_down")

# %% [markdown]
# ## Why?
#
# | Why … | Lesson |
# | --- | --- |
# | should picking replies teach what sentences mean? | 1 |
# | can one trust gradients that somebody wrote by hand? | 2 |
# | does a layer turn 200 numbers into 200 others, and how does it learn? | 3 |
# | does it know the word "1990", and what does it do with words it has never seen? | 4 |
# | is a word a row of numbers, and why do rare words learn at all? | 5, 16 |
# | do "the dog bit the man" and "the man bit the dog" have nearly one vector? | 6 |
# | do so few steps teach so much? | 7 |
# | are the other replies of a batch the wrong answers, and what does the loss of a guess mean? | 8, 9 |
# | do scores have a meaning, and which? | 10 |
# | have all vectors length 1, and why is a message not its own best reply? | 11 |
# | can a Transformer know the order of words, and what does it cost? | 12, 13, 14, 15 |
# | does it learn in seconds, and how do I see that it does not? | 16, 17 |
# | are there no frameworks in this project? | 18 |
# | do sentences with the same replies become one? | 19 |
# | does a larger batch, or a second machine, help? | 20 |
# | do 120 pairs not tell which is better? | 21 |
# | is the tenth rank better than the ninetieth, and by how much? | 22 |
# | is one reply the nearest of so many messages, and what is `all_but_the_top`? | 23 |
# | does it run on a GPU, and are the numbers the same there? | 24, 25 |
#
# ## Where this lives
#
# - `minimal.py`: the whole idea in one file of 150 lines, every gradient by hand.
# - `inference/sentence_encoder.py`: `load`, `encode`, `similarity`. `inference/index.py`:
#   `nearest`. `training/run.py`: what is in a run's folder. From the command line:
#   `python -m convsim_mini.encode --help`.
# - `evaluation/`: the same three questions (people, replies, search) with all the care they need.
# - The paper, §1: one encoder, one task that costs no labels, and sentences that mean the same end
#   up near each other.
#
# Next: lesson 1, why it works at all.
#
# Solutions, for when you have tried: `lessons/solutions/00_top_down.py`.
