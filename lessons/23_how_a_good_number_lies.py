# %% [markdown]
# # 23 · How a good number lies: neighbours in train, and a dev set that was looked at too often
#
# **Needs** a training and its P@1 (lesson 18), bigrams (lesson 6), intervals (lesson 21).
# **Gives** a leak that raises no error, found by counting; a split that cuts no conversation; how
# much the best of a hundred recipes owes to luck.
# **Time** 70 minutes, in two parts; the second begins at "A dev set wears out".
#
# **In thirty seconds.** A test measures what is new to a model only if nothing in train
# stands next to it. This project split its pairs by a hash of the message, which looks careful, and a
# recipe scored 30.0. On conversations of which it has seen nothing it scores 27.0. Worse than the size of the
# mistake: the bent ruler rewarded rows that are worth next to nothing on other conversations. A dev set bends as well, by being looked at.
#
# This lesson is about a mistake of our own. It raised no error, no test failed, and every P@1 of
# the project was measured with it, until somebody counted what train and test have in common.

# %%
import json
import sys
from itertools import chain

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
import scipy.stats
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from small_encoder import corpus_of, first_pairs, train
from convsim_mini.config import Config, ModelConfig, OptimConfig, TextConfig
from convsim_mini.core.ranking import draw_candidates
from convsim_mini.core.text import tokenize
from convsim_mini.data.formats import default_corpus
from convsim_mini.data.units import text_key
from convsim_mini.training.measures import model_ranks
from convsim_mini.training.start import initial_model

rng = np.random.default_rng(seed(24))

# %% [markdown]
# ## A split that looks careful
#
# We want a tenth of the pairs for the test. Drawing them at random would be careless: a pair that occurs
# twice could stand in train *and* in test. So take a hash of the message, and put the pair into test if
# the hash ends in 0. The same message is then always on the same side, on every machine, whatever is
# added to the corpus later. No message of test is a message of train.
#
# **Predict:** of 100 messages of test, how many stand in train *as a reply*? And in how many pairs of test
# do both texts stand in train, each next to somebody else?

# %%
said = first_pairs(40_000)                                    # of real chat, in order
sentences = [tokenize(text) for pair in said for text in pair[:2]]        # 2n lists of tokens
keys = np.array([text_key(" ".join(tokens)) for tokens in sentences], np.uint64).reshape(-1, 2)
_, conversations = np.unique([pair.conversation[0] for pair in said], return_inverse=True)
by_message = keys[:, 0] % 10 == 0
by_conversation = conversations % 10 == 0
for name, test in (("message", by_message), ("conversation", by_conversation)):
    rest = keys[~test]
    print(f"split by {name:13} {np.isin(keys[test, 0], rest[:, 0]).mean():4.0%} of the messages of test are "
          f"messages in train, {np.isin(keys[test, 0], rest[:, 1]).mean():3.0%} replies,"
          f"{np.isin(keys[test], rest).all(axis=1).mean():4.0%} of its pairs have both texts there")
expect(np.isin(keys[by_message, 0], keys[~by_message, 1]).mean(), 0.8, 0.95,
       "split by message: messages of test that are replies in train")

# %% [markdown]
# 86 of 100, and both texts in 75. In a chat each turn is the reply of one pair and the message of the next:
#
# | pair | split | |
# | --- | --- | --- |
# | "any pets?" → "two cats" | train | |
# | "two cats" → "what are they called?" | **test** | train has both texts, each with its *other* neighbour |
# | "what are they called?" → "Salt and Pepper" | train | |
#
# Split by conversation, one pair in a hundred has both: "hi" and "how are you?", which anybody says.
#
# ## The same questions, with their neighbours in train and without
#
# Does it matter? To find out, change that alone. Put 45% of the conversations aside, and ask about a quarter
# of their pairs. Train once on the other conversations (*apart*), and once on as many pairs, among them
# the other three quarters (*neighbours*). Questions, candidates, pieces of words and steps are the same. (Which
# bigrams get rows is counted on what each trains on.)
#
# We do it for three recipes: no bigrams, a row for each of the 10,000 most frequent, a row for all.
#
# **Predict:** what do the neighbours add to P@1? To which recipe the most? And which recipe is best, by each?

# %%
number = conversations.max() + 1
aside = np.isin(conversations, rng.permutation(number)[:int(0.45 * number)])
quarter = rng.random(len(aside)) < 0.25
asked, near, others = map(np.flatnonzero, (aside & quarter, aside & ~quarter, ~aside))
ways = {"apart": others,
        "neighbours": np.concatenate([near, rng.permutation(others)[len(near):]])}
B, EPOCHS = 256, 2
corpora = {way: corpus_of(sentences, keys, {"train": which, "dev": asked, "test": asked}, 8_000, others)
           for way, which in ways.items()}
pairs, candidates = draw_candidates(corpora["apart"].dev, 4_000)      # of the same dev


def exam(way, bigrams):
    """Train → the loss of each step; whether the true reply was first, before and after: (2, 4000)."""
    corpus = corpora[way]
    config = Config(text=TextConfig(bigrams=bigrams), seed=seed(24),
                    model=ModelConfig(embedding_dim=100, layers=[200]),
                    steps=EPOCHS * (corpus.train.pairs // B),
                    optim=OptimConfig(batch_size=B, learning_rate=1e-3))
    model = initial_model(config, corpus)
    first = [model_ranks(model, corpus.dev, pairs, candidates) == 1]
    losses = train(model, config, corpus)
    return losses, 100.0 * np.array([*first, model_ranks(model, corpus.dev, pairs, candidates) == 1])


recipes = {"no bigrams": 0, "the 10,000 most frequent": 10_000, "all bigrams": 10**6}
found = {(recipe, way): exam(way, bigrams) for recipe, bigrams in recipes.items() for way in ways}
P = {both: hits.mean(axis=1)[1] for both, (_, hits) in found.items()}
more = lambda a, b: "{:7.1f} ± {:.1f}".format((a - b).mean(), (a - b).std() / np.sqrt(len(a)))
print("P@1, standard error 0.6        apart  neighbours  more, question by question")
for recipe in recipes:
    apart, beside = (found[recipe, way][1][1] for way in ways)
    print(f"{recipe:26} {apart.mean():9.1f} {beside.mean():11.1f}", more(beside, apart))
print("all bigrams less none:", *(f"{way}{more(found['all bigrams', way][1][1], found['no bigrams', way][1][1])}"
                                  for way in ways))
start = [found["no bigrams", way][1][0].mean() for way in ways]
print("before training {:20.1f} {:11.1f}".format(*start))
gain = {way: P["all bigrams", way] - P["no bigrams", way] for way in ways}
claim("neighbours, all bigrams: P@1 more than apart", P["all bigrams", "neighbours"]
      - P["all bigrams", "apart"], low=3)
claim("what all bigrams add, measured with neighbours", gain["neighbours"], low=0)
claim("what all bigrams add, measured apart", gain["apart"], high=0.5)

# %% [markdown]
# The neighbours are worth 3.6 points without bigrams and 4.9 with all of them (5.3 to 6.4 in five other seeds). Now
# look down the columns, and at the errors: of 4,000 questions a P@1 of 18% has a standard error of √(p(1 − p)/n)
# = 0.6 points. Asked with neighbours, a row for each bigram is worth 1.4 ± 0.6 points here and 1.4 to 2.1 in the
# other seeds. Asked apart, it brings nothing: 0.1 ± 0.5 here, −0.4 to −0.9 there. (± behind a difference is its
# standard error, question by question.) **The leak did not only flatter all recipes: it rewarded most the one whose
# rows are worth nothing on other conversations.** The 10,000 rows, too, gain 4.5 from neighbours and are no better
# than none apart. So which recipe is best? By neighbours, all bigrams. Apart, one seed cannot tell; over six seeds
# none at all is best, by half a point on average.
#
# With more pairs that may turn. Our default run, on all of this chat, has 10,000 rows. By the old ruler they were
# worth 2.2 points, by the new one 0.6. The 95% intervals of the two scores are ± 0.5 each, that of their
# difference, unpaired, ± 0.7: 0.6 is not told from nothing.
# Before that we had 200,000 rows, 400 of the model's 418 MB: by the old ruler they were worth 5.5.
#
# Why bigrams? Probably because two of three occur once (lesson 6), so their rows learn one thing: what they were
# said next to. One encoder reads messages and replies alike. If "two cats" was the reply to "any pets?", and "what
# are they called?" the message before "Salt and Pepper", the bigram rows of all four texts are pulled to the words of that
# conversation, and words that come back in it (names, the subject) join both sides. (0.7 of a point here, 0.3 to 2.2
# in other seeds, is there before training: words of these conversations are counted in train, too.)
#
# ## Apart is not unheard
#
# Our split keeps conversations whole. But people hold more than one.
#
# **Predict:** of the pairs asked, how many are of a conversation with somebody who also speaks in train, elsewhere?

# %%
people = {name: {part["sender"] for turn in one["messages"] for part in turn}
          for name, one in json.loads(default_corpus().read_bytes()).items()}
speakers = [people[pair.conversation[0]] for pair in said]    # two for each pair
heard = set().union(*(speakers[k] for k in others))
known = np.array([[bool(speakers[k] & heard), speakers[k] <= heard] for k in asked]).mean(axis=0)
print("speaks in train, in another conversation: one of the two in {:.0%} of the pairs, both in {:.0%}".format(*known))
expect(known[0], 0.95, 1, "asked apart: share of the pairs of whose two people one speaks in train")

# %% [markdown]
# Nearly all. So whoever says "27.0 on strangers" says too much, and we said it ourselves, until a reader counted. What is it
# worth? `tests/benchmarks/benchmark_split.py` draws a quarter of the people for the test. If train has other
# conversations of theirs, instead of as many of other people, P@1 is 0.5 points higher, with an interval from −0.2
# to 1.2; neighbours are worth 2.0 [1.6, 2.5] there. Our split is fair to conversations, and nearly so to people.
#
# ## The cliff
#
# How much there was to exploit stood in every picture of the training loss that we had ever drawn.
#
# **Predict:** each pair comes twice, in two epochs. What does the loss do at the first step of the second?

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), width_ratios=[1.4, 1])
steps = corpora["apart"].train.pairs // B
cliff = {}
for k, recipe in enumerate(recipes):
    losses = np.array(found[recipe, "apart"][0])
    cliff[recipe] = losses[steps - 10:steps].mean() - losses[steps:steps + 10].mean()
    left.plot(losses, color=f"C{k}", label=f"{recipe}: {cliff[recipe]:.1f} down")
    right.plot([0, 1], [P[recipe, way] for way in ways], "o-", color=f"C{k}", label=recipe)
left.axvline(steps, color="k", linestyle=":", label="the second epoch begins")
left.set(xlabel="step (256 pairs)", ylabel="loss", title="A cliff: it has seen these pairs before", ylim=(0, 8))
right.set(xticks=[0, 1], xticklabels=ways, xlim=(-0.3, 1.3), xlabel="who is in train", ylabel="P@1 of 100, per cent",
          title="All bigrams pay with neighbours;\napart the recipes are near")
show(figure, "23_how_a_good_number_lies")
claim("all bigrams: loss before the second epoch less that after its first steps", cliff["all bigrams"], low=2)
claim("no bigrams: the same", cliff["no bigrams"], high=1.5)

# %% [markdown]
# It falls off a cliff: by 1.0 without bigrams, by 3.1 with all (means of ten steps), nearly all of it in one step. On new pairs nothing would
# happen at that step, so the height is what the model knows about *these* pairs and about no others: memory,
# in nats, in a clean split. Memory is not a fault in itself. But with a test next to train, memory scores.
#
# ## What no split may cut
#
# Here the conversations were known. In a file of bare pairs they are not, but a text that is a reply in one
# pair and a message in another links the two. So pairs are the edges of a graph, texts are its nodes, and a
# conversation is a *connected component*. SciPy finds all of them in linear time.
#
# **Predict:** we forget who spoke when, and link equal texts. What share of our pairs is in the largest component?

# %%
def components(ends):
    """Numbers of two nodes for each pair, (n, 2) → the number of its connected component, (n,)."""
    nodes, ends = np.unique(ends, return_inverse=True)
    ends = ends.reshape(-1, 2)
    graph = coo_matrix((np.ones(len(ends)), ends.T), (len(nodes), len(nodes)))
    return connected_components(graph, directed=False)[1][ends[:, 0]]


largest = lambda component: np.bincount(component).max() / len(component)
print(f"{number:,} conversations, the largest has {largest(conversations):.1%} of the pairs")
expect(largest(components(keys)), 0.5, 1, "equal texts linked: share of the pairs in one component")
long = np.array([len(" ".join(tokens)) >= 15 for tokens in sentences]).reshape(-1, 2)
replies, times = np.unique(keys[:, 1], return_counts=True)
own = long & ~np.isin(keys, replies[times > 2])               # a text that is not anybody's
telling = own.any(axis=1)                                     # the other pairs are alone
unit = components(np.where(own, keys, keys[:, ::-1])[telling])    # one telling text: an edge to itself
expect(largest(unit), 0, 0.1, "only telling texts linked: the same")
members, _ = np.unique([unit, conversations[telling]], axis=1)
expect((np.bincount(members)[unit] > 1).sum() / len(said), 0.05, 0.15, "share of the pairs in a unit with other conversations")

# %% [markdown]
# Three quarters: "yes" and "hi" join everybody with everybody. So a text links only if it is telling: 15
# characters or more, and a reply at most twice. Then 9% of the pairs share a unit with another conversation, where
# somebody also said "hey ! what's up ?": too much kept together, which is harmless. A conversation falls into pieces where
# somebody says "yes", but no telling text of it is in two pieces. `convsim_mini.data.split` does this, and cuts a
# single endless chat into blocks. The hash is now that of a *unit*, the lowest of its texts: so neither the order
# of the pairs nor the names of files count.
#
# ### Exercise 1: name the leak
#
# Somebody hands you train and test, as pairs of texts. In each there may be one leak. Name it:
#
# - "copies": a pair of test stands in train, too;
# - "messages": a message of test is a message in train, with another reply;
# - "neighbours": a text of test stands in train in the *other* role;
# - "none": all that they share is what anybody says, texts of fewer than 15 characters.

# %%
def leak_of(train, test):
    """train, test: lists of (message, reply) → "copies", "messages", "neighbours" or "none"."""
    raise NotImplementedError


def talk(rng, number):
    """Conversations of four to nine turns, some of them "yes" or "hi": lists of texts, none of them told twice."""
    texts = lambda: " ".join(rng.choice(["red", "sea", "lamp", "oak", "snow", "train"], 3)) + f" {rng.random():.9f}"
    return [[rng.choice(["yes", "hi"]) if rng.random() < 0.2 else texts() for _ in range(rng.integers(4, 10))]
            for _ in range(number)]


def judge_leak(leak_of, rng):
    said = lambda turns: [*zip(turns, turns[1:])]
    for kind in rng.permutation(["copies", "messages", "neighbours", "none"]):
        told = talk(rng, 40)
        train, test = ([*chain(*map(said, part))] for part in (told[:30], told[30:]))
        message, reply = next(turns[-2:] for turns in told[30:] if min(map(len, turns[-2:])) > 14)
        planted = {"copies": (message, reply), "messages": (message, talk(rng, 1)[0][-1] + " so what"),
                   "neighbours": (reply, "I see what you mean"), "none": ("hi", "yes")}
        train.insert(int(rng.integers(len(train))), planted[kind])
        named = leak_of([*train], [*test])
        assert named == kind, (f"it was “{kind}”, and you say “{named}”; which texts of 15 characters or "
                               "more do train and test share, and in which role?")


check(1, leak_of, judge_leak)

# %% [markdown]
# ### Exercise 2: write the split
#
# From bare pairs, about a fifth for the test, and no telling text, of 15 characters or more, on both sides. What
# decides is the texts: the same pairs in another order are split alike. (`components` helps. `text_key` is a hash of a text.)

# %%
def split(pairs):
    """pairs: list of (message, reply) → bool (n,), True for test."""
    raise NotImplementedError


def judge_split(split, rng):
    told = talk(rng, 300)
    pairs = [(a, b, number) for number, turns in enumerate(told) for a, b in zip(turns, turns[1:])
             if max(len(a), len(b)) > 14]
    pairs = [pairs[k] for k in rng.permutation(len(pairs))]
    test = np.asarray(split([pair[:2] for pair in pairs]), bool)
    assert 0.08 < test.mean() < 0.35, (
        f"{test.mean():.0%} of the pairs are in test, expected about a fifth; what do “yes” and “hi” link?")
    where = {}
    for (message, reply, _), side in zip(pairs, test):
        for text in (message, reply):
            if len(text) > 14:
                assert where.setdefault(text, side) == side, f"“{text}” stands in train and in test"
    order = rng.permutation(len(pairs))
    again = np.asarray(split([pairs[k][:2] for k in order]), bool)
    assert (again == test[order]).all(), "the same pairs in another order are split otherwise"


check(2, split, judge_split)

# %% [markdown]
# ## A dev set wears out
#
# The second way to a good number needs no leak. We choose recipes on dev: more pieces, another rate, one layer
# more. Each look is a draw with an error, and we keep the best. So what is kept is a little better and a
# little lucky, and dev's score shows both.
#
# How lucky? Let m recipes be *equally* good, with errors that are normal with standard deviation σ. All m are
# below z σ with the probability Φ(z)ᵐ, so the median of the best one's luck is where that is ½ (the mean,
# drawn below, is 2% higher at 100):
#
# **luck ≈ σ · Φ⁻¹(2^(−1/m))**
#
# For m = 1 that is 0, for 10 it is 1.5 σ, for 100 it is 2.5 σ. It grows slowly, but it never stops.
#
# **Predict:** dev has 1,500 questions, and each of a hundred recipes answers 25% of such questions. What does the
# best of them score on dev? And on a test of 1,500 other questions?

# %%
def scores(recipes, questions, rng):
    """P@1 of recipes that are equally good: (recipes,); a question is easy or hard for all of them."""
    easy = rng.beta(0.5, 1.5, questions)                      # mean ¼
    return 100 * (rng.random((recipes, questions)) < easy).mean(axis=1)


draws, counts = 200, np.array([1, 2, 5, 10, 20, 50, 100])
luck = np.zeros((draws, len(counts), 2))                      # on dev, on test
for draw in range(draws):
    dev, test = (scores(counts[-1], 1_500, rng) for _ in range(2))
    best = [np.argmax(dev[:m]) for m in counts]
    luck[draw] = np.stack([dev[best] - dev.mean(), test[best] - test.mean()], axis=1)
sigma = 100 * np.sqrt(scipy.stats.beta(0.5, 1.5).expect(lambda p: p * (1 - p)) / 1_500)
derived = sigma * scipy.stats.norm.ppf(2.0 ** (-1 / counts))

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4))
left.plot(dev, test, "o", color="C7", alpha=0.6)
left.plot(dev[best[-1]], test[best[-1]], "o", color="C3", markersize=9, label="the best of 100 on dev")
left.axhline(25, color="k", linestyle=":", label="what each of them is worth")
left.set(xlabel="P@1 on dev", ylabel="P@1 on test", title="A hundred recipes of equal worth")
for side, (name, color) in enumerate((("on dev, where it was chosen", "C3"), ("on test", "C0"))):
    right.semilogx(counts, luck[:, :, side].mean(axis=0), "o-", color=color, label=f"the best one {name}")
right.semilogx(counts, derived, "k:", label="derived")
right.set(xlabel="recipes that were tried", ylabel="points above its worth", xticks=counts, xticklabels=counts,
          title="The winner's curse grows with each look")
right.minorticks_off()
show(figure, "23_winners_curse")
claim("luck of the best of 100 on dev, points; derived 2.2", luck[:, -1, 0].mean(), 2.1, 2.6)
claim("its luck on test", luck[:, -1, 1].mean(), -0.3, 0.3)

# %% [markdown]
# More than two points from nothing, and all of them gone on test. This is how a project walks uphill and
# stands where it was. Our STS dev has 1,500 pairs and was looked at about a hundred times. A part that
# dev did not miss was taken out; on 6,249 pairs of three genres it was worth 1.4 points.
#
# What helps? Choose on as much as there is, since σ falls like 1/√n, and on sets of several kinds. Compare question
# by question, which is less noisy. Say how often you looked. And hold a slice back: some pairs that nobody looks at
# until the end, **once**. Its luck is that of m = 1. Whoever looks at it twice has a second dev set.
#
# ### Exercise 3: which improvements survive?
#
# Five colleagues each report the best of some tries, with its gain on dev in points, its standard error and
# the number of tries. Accept a gain only if the best of as many *worthless* tries would reach it in fewer
# than one of twenty cases. (Φ is `scipy.stats.norm.cdf`.)

# %%
def survives(gain, error, tries):
    """→ True if luck alone explains the gain in fewer than 5% of cases."""
    raise NotImplementedError


def judge_survives(survives, rng):
    reports = [(2.0, 1.0, 1), (2.0, 1.0, 30), (3.1, 1.0, 30), (3.1, 1.0, 100), (1.2, 0.4, 10)]
    for (gain, error, tries), right in zip(reports, (True, False, True, False, True)):
        for scale in (1, rng.uniform(0.1, 10)):
            said = bool(survives(scale * gain, scale * error, tries))
            assert said == right, (f"the best of {tries}, {gain} ± {error}: that is "
                                   f"{'no luck' if right else 'luck'}; how often would {tries} worthless "
                                   f"tries all stay below {gain / error:.2f} standard errors?")


check(3, survives, judge_survives)

# %% [markdown]
# ## Where this lives
#
# - `data/split.py`: `split_pairs`, and `overlap`, what train and test have in common, in each corpus's report.
# - `evaluation/sts.py`: `held_back`, 1,000 pairs of STS, to be read once, at the end.
# - `lessons.patient`: the fault `split-by-message`.
# - To read further: [PolyAI's conversational datasets](https://arxiv.org/abs/1904.06472) split by thread for this
#   reason; [Dwork et al.](https://arxiv.org/abs/1506.02629), a holdout that can be asked more often.

# %% [markdown]
# ## What you know now
#
# - A test next to train measures memory, and pays for what only remembers.
# - Link pairs by texts that only one conversation would say; never cut what is linked.
# - The best of m equally good tries owes σ · Φ⁻¹(2^(−1/m)) to luck. A slice held back is read once.
#
# Next: this was the last lesson of the path. Three more are optional: A, counting; B, many workers; C,
# what a GPU does differently. Or write the backwards yourself: `python -m lessons.yours`.
#
# Solutions, for when you have tried: `lessons/solutions/23_how_a_good_number_lies.py`.
