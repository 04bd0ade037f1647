# %% [markdown]
# # 1 · Why replies reveal meaning
#
# **Needs** probabilities, and that NumPy multiplies matrices with `@`. The encoder is a box here
# that turns a sentence into a vector; lessons 2 to 11 open it.
# **Gives** the idea of the paper as a number: sentences that can be answered alike end up near each
# other, although nobody ever says which sentences are alike.
# **Time** 45 minutes.
#
# "How old are you?" and "What is your age?" share not a single word, and mean the same. "How old
# are you?" and "How are you?" share three words of four, and mean different things. How could a
# machine find out? The paper's answer: watch what people reply. "I am twenty" fits the first two.
#
# **In thirty seconds.** To guess a reply you need only what decides the reply. So a machine that
# plays "which reply is mine?" may forget the rest of a sentence. In real
# conversations nobody knows how likely each reply is. So we build a small world in which we do know.

# %%
import sys
from collections import Counter

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from convsim_mini.config import ModelConfig
from convsim_mini.core.model import Model, embed, loss_and_gradients
from convsim_mini.core.optim import Adaptive
from convsim_mini.core.batches import Batch
from convsim_mini.core.text import Vocabulary, tokenize
from convsim_mini.evaluation.metrics import pearson
from convsim_mini.core.initial import initial_parameters

rng = np.random.default_rng(seed(1))

# %% [markdown]
# ## A small world
#
# Ten questions, three ways to ask each, and how often people give each answer. Some replies serve
# two questions: "a bit exhausted" says how you are and how you slept.

# %%
questions = {
    "age": ["how old are you", "what is your age", "when were you born"],
    "health": ["how are you", "is everything well with you", "what is your mood"],
    "name": ["what is your name", "who are you", "how should i call you"],
    "home": ["where do you live", "what is your town", "are you from here"],
    "work": ["what do you do", "where is your office", "who is your boss"],
    "weather": ["how is the sky", "is it raining where you are", "what is it like outside"],
    "food": ["what do you eat", "are you hungry", "when is your dinner"],
    "sleep": ["are you tired", "did you rest", "how was your night"],
    "evening": ["what do you do tonight", "are you free later", "where will you go"],
    "film": ["what film did you watch", "who was in the cinema", "how was the story"]}
answers = {
    "age": {"i am twenty": 3, "thirty since may": 2, "guess": 1},
    "health": {"fine thanks": 3, "not so good": 1, "a bit exhausted": 1},
    "name": {"call me anna": 3, "my friends say bob": 2, "guess": 1},
    "home": {"in a small village": 2, "in the city centre": 2, "with my parents": 1},
    "work": {"in the city centre": 1, "i teach children": 3, "nothing yet": 1},
    "weather": {"grey and wet": 2, "sunny and warm": 2},
    "food": {"pasta with tomatoes": 3, "around seven": 1, "i need some coffee": 1},
    "sleep": {"a bit exhausted": 2, "i need some coffee": 2, "fine thanks": 1},
    "evening": {"nothing yet": 2, "to the pictures": 2, "around seven": 1},
    "film": {"a boring love story": 2, "to the pictures": 1, "two hours of spies": 2}}
cores = [sentence for group in questions.values() for sentence in group]      # n = 30 sentences
replies = sorted({reply for group in answers.values() for reply in group})    # R different replies
reply_of = np.array([[answers[topic].get(reply, 0) for reply in replies] for topic in questions],
                    float)
reply_of /= reply_of.sum(axis=1, keepdims=True)               # (10, R) P(reply | topic)

# No two wordings ask quite the same: up to a half of each sentence is of a topic drawn at random.
topic = np.repeat(np.arange(10), 3)
share = rng.uniform(0, 0.5, (30, 1))
P = (1 - share) * reply_of[topic] + share * reply_of[rng.integers(10, size=30)]  # (n, R) P(r | s)

# %% [markdown]
# ## Meaning, by definition
#
# We call two sentences similar by the share of the replies that they have in common,
#
# **overlap(a, b) = Σ_r min(P(r|a), P(r|b))**,
#
# 1 for equal replies, 0 if no reply fits both. If people answer *a* with three replies in the
# proportions ½, ¼, ¼ and *b* in ¼, ½, ¼, they have ¼ + ¼ + ¼ = ¾ in common. The machine never sees it.

# %%
def overlap(p, q):
    """Σ min(p, q) over the last axis."""
    return np.minimum(p, q).sum(axis=-1)


# %% [markdown]
# ## The game
#
# Why not count which reply follows which sentence, and compare the counts? Because real sentences
# hardly ever repeat. People say "hey, how old are you my friend". We add such words at random, and
# keep some of these additions for the test, so that it has sentences that training never saw.
#
# The machine plays a game. It gets one input and K replies, its own and those of K − 1 others, and
# must say which is its own. It never sees overlap, topics or similarity.

# %%
before = ["", "hey", "so", "tell me", "by the way", "excuse me", "oh", "now", "well then"]
after = ["", "my friend", "please", "today", "if i may ask", "anyway", "again", "dear", "honestly"]
frames = rng.permutation([f"{a} {{}} {b}".strip() for a in before for b in after])
frames, test_frames = frames[:60], frames[60:]                # "hey {} my friend", …


def speak(numbers, frames, rng):
    """The sentences of these numbers (B,), each in one of the frames: list of B strings."""
    return [frame.format(cores[s]) for frame, s in zip(rng.choice(frames, len(numbers)), numbers)]


def answer(numbers, rng, world=P):
    """A reply to each: numbers of replies (B,), drawn from the world's rows."""
    return (world[numbers].cumsum(axis=1) < rng.random((len(numbers), 1))).sum(axis=1)


# %% [markdown]
# ## What a perfect player would do
#
# (It takes Bayes' rule. Whoever wants to see the training first may skip to "A player made of vectors".)
#
# Suppose you knew P. You see input i and K replies, one drawn from P(r|i), the others from P(r). By
# Bayes' rule the probability that reply j is the true one is proportional to P(r_j|i)/P(r_j). A
# softmax turns scores into probabilities, proportional to e^score. So the perfect score is
#
# **s_ij = ln P(r_j|i) − ln P(r_j)**
#
# or that plus any number of the row's own, which a softmax does not see (lesson 19).
#
# A reply that is three times as likely after this sentence as it is overall gets ln 3; one that is as
# likely as ever gets 0. Sentence i enters *only through its reply distribution*, so two sentences
# with the same replies get the same scores against everything. If we call the replies its meaning,
# the paper's hypothesis follows for the best *scores*. It does not follow for *vectors*, since
# different vectors can give the same scores. So below we measure the vectors.
#
# The loss is the mean of −ln p(true reply). A player who knows nothing pays ln K. Even someone who
# knows everything saves at most I, the *mutual information* I = Σ P(s, r) ln P(r|s)/P(r).
#
# **Predict:** there are K = 64 replies to choose from, ln 64 = 4.16. Only 21 different replies exist,
# so the right reply is often on the list several times. Can anybody reach a loss of 0? Of 2?

# %%
def mutual_information(P):
    """I between sentence, all equally likely, and reply, in nats: P: (n, R) → float."""
    common = P.mean(axis=0)                                   # (R,) P(r)
    ratio = np.divide(P, common, out=np.ones_like(P), where=P > 0)
    return float((P * np.log(ratio)).sum() / len(P))


K = 64
information = mutual_information(P)
perfect_scores = np.log(np.maximum(P, 1e-30)) - np.log(P.mean(axis=0))           # (n, R)
draw, losses = np.random.default_rng(seed(0)), []
for _ in range(200):                                          # batches
    s = draw.integers(len(cores), size=K)
    scores = perfect_scores[s][:, answer(s, draw)]            # (K, K), the true ones: its diagonal
    losses.append(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores.diagonal()))
perfect = np.mean(losses)
expect(perfect, np.log(K) - information, np.log(K) - 0.9 * information,
       f"loss of a perfect player; mutual information is {information:.3f}, and ln 64 4.159")

# %% [markdown]
# Nobody can reach 2: even the perfect player's loss is 2.60, nearly ln 64 − I = 2.56.
#
# ## A player made of vectors
#
# Our player turns an input into a vector u of length 1, a reply into v, and scores them by a factor
# times their dot product. Training pulls the true reply near and pushes the likely others away.
#
# The encoder is the paper's simpler one, small: the vectors of a sentence's words are added up,
# divided by √n, passed through one layer and scaled to length 1. Lessons 2 to 11 build it, and
# add word pairs. Words start as random vectors, so at first similar means "has words in common".

# %%
tokens = {token for text in [*cores, *replies, *before, *after] for token in tokenize(text)}
vocabulary = Vocabulary.of_words(Counter(tokens))
config = ModelConfig(embedding_dim=32, layers=[32], scale=5.0)


def fresh_model(rng):
    table = rng.standard_normal((vocabulary.size, 32)).astype(np.float32)
    return Model(initial_parameters(config, table, rng), config, vocabulary.size)


def fresh_batch(rng, world):
    """K new pairs as the library's Batch: the inputs, then their replies, as one Packed."""
    s = rng.integers(len(cores), size=K)
    texts = speak(s, frames, rng) + [replies[r] for r in answer(s, rng, world)]
    return Batch(vocabulary.encode(texts))


# %% [markdown]
# ## Before
#
# We draw 300 sentences in the frames that were kept back and compare, for every two of them, the
# cosine of their embeddings with the truth. **Predict** the correlation before training.

# %%
test_s = rng.integers(len(cores), size=300)
test_texts = speak(test_s, test_frames, rng)
a, b = np.triu_indices(len(test_s), k=1)
a, b = a[test_s[a] != test_s[b]], b[test_s[a] != test_s[b]]   # the same question would be too easy
test_truth = overlap(P[test_s[a]], P[test_s[b]])


def similarities(model):
    """Cosines of the test pairs."""
    vectors = embed(model, vocabulary.encode(test_texts))     # (300, 32), unit length
    return (vectors[a] * vectors[b]).sum(axis=1)


model = fresh_model(rng)
before_training = similarities(model)
expect(pearson(before_training, test_truth), -0.2, 0.3,
       "correlation with the truth, before training")

# %% [markdown]
# It is about 0: between different questions, words in common tell you nothing about meaning here.
#
# ## Training
#
# We play the game for 600 steps, always with new pairs. Nobody says which sentences are similar.

# %%
def train(model, world):
    """Train in place → losses."""
    optimizer, losses = Adaptive(model.params), []            # a box until lesson 16
    for _ in range(600):
        loss, grads = loss_and_gradients(model, fresh_batch(rng, world))
        optimizer.step(model.params, grads, rate=0.003, table_rate=0.1)
        losses.append(float(loss))
    return losses


losses = train(model, P)
after_training = similarities(model)
claim("loss, last 50 batches, minus that of the perfect player", np.mean(losses[-50:]) - perfect,
      -0.05, 0.2)
claim("correlation with the truth, after training", pearson(after_training, test_truth), 0.75)

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 4.2))
left.plot(losses, color="C0", alpha=0.3)
left.plot(range(25, 576), np.convolve(losses, np.ones(50) / 50, "valid"), label="mean of 50 batches")
left.axhline(np.log(K), color="k", linestyle="--", label="knows nothing: ln 64")
left.axhline(perfect, color="k", linestyle=":", label="perfect player, simulated")
left.set(xlabel="step", ylabel="loss, nats", title="The game is learned\nnearly perfectly")
for axes, cosine, color, title in (
        (middle, before_training, "C3", "Before: the angle says nothing"),
        (right, after_training, "C0", "After: it follows what people reply")):
    axes.scatter(test_truth, cosine, s=3, alpha=0.1, color=color, rasterized=True)
    axes.set(xlabel="true overlap of the replies", ylabel="cosine of the embeddings",
             ylim=(-1.05, 1.05), title=f"{title}\n(r = {pearson(cosine, test_truth):.2f})")
show(figure, "01_why_replies_reveal_meaning")

for x, y in (("how old are you", "what is your age"), ("how old are you", "how are you")):
    vectors = embed(model, vocabulary.encode([x, y]))
    print(f"{x} | {y}: cosine {vectors[0] @ vectors[1]:.2f}, truth "
          f"{overlap(P[cores.index(x)], P[cores.index(y)]):.2f}")

# %% [markdown]
# The encoder learned this from nothing but replies, even in frames it never saw. (The truth of the
# first pair is 0.52, not 1, because each wording has a share of another topic. And the loss starts
# *above* ln 64: random scores cost more than equal ones. Lesson 5 says how much.)
#
# ## Two controls
#
# Is it the replies? Train once more in a world in which they do not depend on the sentence. And do
# sentences with *the same* replies end up with similar *vectors*? Train in a world in which the three wordings
# of a question have exactly the same replies.
#
# **Predict** both: the correlation in the first, the mean cosine of two wordings in the second.

# %%
deaf, same = fresh_model(rng), fresh_model(rng)
train(deaf, np.tile(P.mean(axis=0), (len(P), 1)))
train(same, reply_of[topic])
claim("replies at random: correlation with the truth", pearson(similarities(deaf), test_truth),
      high=0.2)
one_topic = topic[test_s[a]] == topic[test_s[b]]
claim("two wordings with the same replies: mean cosine", similarities(same)[one_topic].mean(), 0.85)

# %% [markdown]
# When replies have nothing to do with the sentence, nothing is learned. Wordings with the same replies
# end up in almost the same place: their mean cosine is 0.94. The loss did not demand that: with 21 replies
# in 32 dimensions, two vectors may differ in a direction in which no reply looks. But the same
# replies pull at both, and no reply pulls them apart.
#
# ### Exercise 1: break the world
#
# Make everyone evasive: halve the mutual information. The old replies must keep their relative
# frequencies. Hint: everyone gets one more thing to say, and says it to everything.

# %%
def evasive_world(P):
    """P: (n, R) → P′ (n, R′): the R old replies, then what is new; rows sum to 1; half of I."""
    raise NotImplementedError


def judge_evasive(evasive_world, rng):
    for world in (P, reply_of, rng.dirichlet(np.ones(5), 4)):
        changed = np.asarray(evasive_world(world.copy()))
        assert np.allclose(changed.sum(axis=1), 1), "the replies to a sentence must sum to 1"
        assert 0 <= changed.min() and changed.max() <= 1, "some probability is not within 0 to 1"
        ratio = mutual_information(changed) / mutual_information(world)
        assert abs(ratio - 0.5) < 1e-6, f"{ratio:.3f} of the information is left, expected 0.5"
        old, kept = world.shape[1], changed[:, :world.shape[1]]
        assert changed.shape[1] > old and np.allclose(
            kept / kept.sum(axis=1, keepdims=True), world), (
            f"the first {old} columns, the old replies, do not keep their proportions")


check(1, evasive_world, judge_evasive)

# %% [markdown]
# Half the information: even the perfect player now saves at most I/2. Real chat is like that: "lol",
# "ok" and "yes" answer everything. Perhaps that is why the paper trains on 600 million pairs (§3).
#
# ## Where this lives
#
# - `minimal.py` plays this game on real chat: `loss_and_gradients`, `update`, `main`.
# - [The paper](https://arxiv.org/abs/1804.07754), figure 1 and §1: the hypothesis. §2.1 and §2.2: pick
#   the true reply among K by a softmax over dot products. It does not say that the best scores are
#   ln P(r|s)/P(r); to read further on that: [InfoNCE](https://arxiv.org/abs/1807.03748), §2.3.

# %% [markdown]
# ## What you know now
#
# - A reply's best score is the log of how much likelier it is after this sentence than overall.
# - A player who learns that puts sentences with similar replies near each other: r from 0 to 0.84.
# - Nobody told it what is similar. The replies did.
#
# Next: lesson 2 builds the instrument with which we check every gradient from here on.
#
# Solutions, for when you have tried: `lessons/solutions/01_why_replies_reveal_meaning.py`.
