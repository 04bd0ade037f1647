# %% [markdown]
# # 18 · Train it: from one batch to a learning curve, and what to do at ln K
#
# **Needs** the batch softmax loss (lesson 5), text to ids (lesson 6), the response network (lesson
# 9), optimisers (lessons 16 and 17). The word vectors of the start are counted (lesson A).
# **Gives** an encoder trained in seconds, three checks before a long run, a table of symptoms.
# **Time** 90 minutes.
#
# **In thirty seconds.** Before a long run, check three numbers that you can predict: the
# loss at the start, the loss of one batch once it is memorised, the size of an update. When a loss
# is stuck at ln K, three others show why: how far the scores spread, how far the true one leads,
# how far the table moves. And report a baseline with every score.
#
# A training loop is three lines, and a loop that runs proves little. With a wrong pairing, a lost
# gradient or a missing factor the loss is still a number, and it may even fall. So before we look
# at any number of a training, we say what we expect it to be.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
from small_encoder import small_config, some_chat
from tqdm import tqdm
from convsim_mini.config import ModelConfig
from convsim_mini.core.model import encoder_forward, loss_and_gradients, response_forward
from convsim_mini.core.optim import Adaptive
from convsim_mini.core.batches import batch_order
from convsim_mini.core.ranking import draw_candidates, precision
from convsim_mini.core.loop import rates
from convsim_mini.evaluation.baselines import fitted_on_train
from convsim_mini.inference.tfidf import tfidf
from convsim_mini.training.measures import model_ranks, ranks_of_truth
from convsim_mini.training.start import initial_model

rng = np.random.default_rng(seed(14))

# %% [markdown]
# ## A third of the default corpus
#
# `chitchat-dataset` holds chats of real people, two at a time. A pair is a turn and the answer to
# it. `some_chat` (in `small_encoder.py`) takes the first pairs, splits them by *conversation*, so that
# train has no turn of dev's conversations, and learns pieces of words from train only.

# %%
PIECES = 8_000
corpus = some_chat(40_000, PIECES)
train, dev = corpus.train, corpus.dev
said = {train.packed.part(k, k + 1).ids.tobytes() for k in range(2 * train.pairs)}
met = [dev.packed.part(k, k + 1).ids.tobytes() in said for k in np.flatnonzero(dev.packed.lengths > 4)]
expect(np.mean(met), 0, 0.01, "share of dev's texts of five pieces or more that train has, too")

# %% [markdown]
# One in 280, such as "are you still in school ?": anybody says it. (Split by a hash of each message, five
# in six messages of dev are replies in train. What that does to a score: lesson 23.)

# %% [markdown]
# ## Memorise one batch
#
# Two losses are known before the first step. If all K replies look equally good, the loss is ln K. If the
# scores differ at random, with variance σ², it is σ²/2 higher (lesson 5), and ours begins as a bag, whose
# scores differ. The lowest loss that unit vectors can reach at the scale s is ln(1 + (K − 1) e^(−s
# K/(K − 1))) (lesson 9), which is nearly 0 at s = 15.
#
# The model is the `chat` preset with vectors of 200 numbers. `step_once` is the three lines.

# %%
config = small_config(PIECES)
optim, scale = config.optim, config.model.scale


def step_once(model, optimizer, batch, rate, table_rate):
    """Forward, backward, update; → loss."""
    loss, grads = loss_and_gradients(model, batch)
    optimizer.step(model.params, grads, rate, table_rate)
    return float(loss)


untrained = initial_model(config, corpus)


def fresh():
    """A copy of the untrained model, and its optimiser."""
    model = untrained._replace(params={name: p.copy() for name, p in untrained.params.items()})
    return model, Adaptive(model.params)


model, optimizer = fresh()

# %% [markdown]
# A model that cannot memorise *one* batch will not learn a corpus. So the cheapest test gives it
# the same 32 pairs in each step. The loss starts below ln 32 = 3.47, since with
# 31 wrong replies a shared word often tells the true one. It has to fall to nearly 0.
#
# **Predict:** 32 pairs, 1.8 million parameters. How many steps until the loss is 0.1: 1, 10 or 100?

# %%
one_batch = train.batch(rng.choice(train.pairs, 32, replace=False))
FULL = optim.learning_rate, optim.table_learning_rate         # for matrices, for tables
losses = [step_once(model, optimizer, one_batch, *FULL) for _ in range(100)]
print("loss at steps 1, 2, 5, 100:", *(f"{losses[k - 1]:.4f}" for k in (1, 2, 5, 100)))
expect(losses[0] - np.log(32), -1, 2, "loss at the start less ln 32")
expect(losses[-1], 0, 0.05, "one batch, memorised")
expect(np.argmax(np.array(losses) < 0.1), 1, 3, "steps until 0.1")

# %% [markdown]
# Two or three steps are enough: each pair has words of its own, and all their rows move at once.
#
# ### Exercise 1: what this test cannot see
#
# The test proves that the gradients arrive and that the lowest loss can be reached. It does not
# prove that the *right* thing is learned. Show it: write a `batch` function that gives the same 2B
# sentences, but in which hardly any input is answered by its own reply, and with which the
# one-batch test still passes. (`Batch.sentences` holds the B inputs, then their B responses.
# `train.sentences(numbers)` fetches sentences: 2i is the input of pair i, 2i + 1 its response.)

# %%
def broken_batch(split, which):
    """Like split.batch(which), but wrong; B pairs: `which` (B,)."""
    raise NotImplementedError


def judge_broken_batch(broken_batch, rng):
    which = rng.choice(train.pairs, 32, replace=False)
    # words of a sentence or sides of a pair in another order: what is learned stays the same
    texts = lambda packed: [tuple(sorted(packed.part(b, b + 1).ids))
                            for b in range(len(packed.lengths))]
    good, bad = texts(train.batch(which).sentences), texts(broken_batch(train, which).sentences)
    assert sorted(bad) == sorted(good), "these are other sentences; change only who answers whom"
    true_pairs = set(map(frozenset, zip(good[:32], good[32:])))
    still = sum(frozenset(pair) in true_pairs for pair in zip(bad[:32], bad[32:]))
    assert still <= 3, (
        f"{still} of the 32 inputs still have their own reply: it could learn from them")
    model, optimizer = fresh()
    losses = [step_once(model, optimizer, broken_batch(train, which), *FULL) for _ in range(100)]
    assert losses[-1] < 0.1, (f"the one-batch test notices: its loss is {losses[-1]:.2f} after 100 "
                              "steps; what must stay the same for a batch to be memorised?")


check(1, broken_batch, judge_broken_batch)

# %% [markdown]
# ## How far does a step go?
#
# The second check is a ratio: how large is the update next to what it updates, ‖Δp‖/‖p‖? As a rule
# of thumb, a thousandth is healthy for a matrix, which every step moves, and a hundredth for the
# rows of a table, which are touched now and then. The first step's ratio can be computed by hand:
#
# - With **Adam** each number moves by ± rate at step 1 (lesson 17), whatever the loss is. A weight
#   matrix starts uniform on ± √(6/(d + e)), whose rms is √(2/(d + e)). So the ratio is **rate ·
#   √((d + e)/2)**.
# - With **Adagrad by rows** each row that is touched moves by an rms of **table_rate**.
#
# **Predict:** rate 0.001 and a matrix of 100 × 200. What ratio?

# %%
MATRIX, TABLE = "encoder.linear0.weight", "encoder.embedding.weight"


def touched_words(batch):
    """The word rows that a batch uses, each once."""
    return np.unique(batch.sentences.ids)


def update_ratio(before, after):
    """‖Δp‖/‖p‖ of an array before and after a step."""
    return np.linalg.norm(after - before) / max(np.linalg.norm(before), 1e-12)


model, optimizer = fresh()
batch = train.batch(np.arange(256))
step_once(model, optimizer, batch, *FULL)
matrix = update_ratio(untrained.params[MATRIX], model.params[MATRIX])
words = touched_words(batch)
rows = untrained.params[TABLE][words]
table = update_ratio(rows, model.params[TABLE][words])
print(f"matrix {matrix:.4f}, table {table:.4f}")
expect(matrix / (FULL[0] * np.sqrt(300 / 2)), 0.9, 1.04, "matrix / (rate √((d + e)/2))")
expect(table * np.sqrt(np.mean(rows**2)) / FULL[1], 0.9, 1.01, "table · rms / table_rate")

# %% [markdown]
# The matrix moves by one per cent, and the table's rows by 28: ten times and thirty times what we
# just called healthy. So we do not take the first steps at full rate: during the **warm-up**
# `rates` lets the rate grow from nothing, over a tenth of all steps (what that is worth: below).
# After that Adagrad slows down by itself: in 80 steps the table's ratio comes down to 2%. (Over *all*
# rows of the table the ratio looks small, since a batch touches few: take only those it did.)
#
# ## The loss stays at ln K: six patients
#
# Here are seven runs of 80 steps on fresh batches: one is healthy, and six have one fault each.
# Three numbers tell them apart, and none of them is the loss:
#
# - **spread**: the standard deviation of the wrong replies' scores within a row. At zero all
#   replies look alike to the model.
# - **gap**: the true reply's score less the mean of the others, in units of the spread. Near zero
#   the scores differ, but do not tell which reply is true.
# - **ratio**: of the table's update. At zero nothing is learned, whatever the gradients are.
#
# **Predict**, before you look: a run whose replies are shuffled (each input gets somebody else's reply, drawn anew in
# every step). Its loss starts near 7.7, far above ln 256 = 5.55. Where will it go: stay, fall to 5.55, or fall below?

# %%
def scores_of(model, batch):
    """Spread of a batch's scores, and the gap in spreads."""
    both, _ = encoder_forward(model, batch.sentences)
    B = len(both) // 2
    v_prime, _ = response_forward(model, both[B:])
    scores = model.config.scale * both[:B] @ v_prime.T
    wrong = scores[~np.eye(B, dtype=bool)].reshape(B, B - 1)
    spread, gap = wrong.std(axis=1).mean(), (scores.diagonal() - wrong.mean(axis=1)).mean()
    return float(spread), float(gap / max(spread, 1e-3))      # equal vectors have no spread


def patient(steps=80, shuffled=False, wrong_sign=False, rate=1.0, scale=scale, unknown=False):
    """Losses of all steps, and the three numbers at the end, of a run with a fault."""
    model, optimizer = fresh()
    model = model._replace(config=ModelConfig(**{**vars(config.model), "scale": scale}))
    losses, draw = [], np.random.default_rng(seed(1))
    for step, which in zip(range(steps), batch_order(train.pairs, optim.batch_size, config.seed)):
        batch = train.batch(which)
        if shuffled:
            replies = 2 * draw.permutation(which) + 1
            batch = batch._replace(sentences=train.sentences(np.concatenate([2 * which, replies])))
        if unknown:
            no_word = np.zeros_like(batch.sentences.ids)
            batch = batch._replace(sentences=batch.sentences._replace(ids=no_word))
        words = touched_words(batch)
        before = model.params[TABLE][words]                   # a copy
        loss, grads = loss_and_gradients(model, batch)
        if wrong_sign:
            grads = {name: [part._replace(values=-part.values) for part in grad]
                     if isinstance(grad, list) else -grad for name, grad in grads.items()}
        optimizer.step(model.params, grads,
                       *(rate * r for r in rates(optim, step, config.steps, len(which))))
        losses.append(float(loss))
    return losses, *scores_of(model, batch), update_ratio(before, model.params[TABLE][words])


cases = {"healthy": {}, "replies shuffled": {"shuffled": True}, "rate is 0": {"rate": 0.0},
         "rate × 100": {"rate": 100.0}, "gradient's sign": {"wrong_sign": True},
         "no scale (s = 1)": {"scale": 1.0}, "every word unknown": {"unknown": True}}
patients = {name: patient(**fault) for name, fault in tqdm(cases.items(), "patients", disable=None)}
ln_K = np.log(optim.batch_size)
print(f"{'':20}{'loss − ln K':>12}{'spread':>9}{'gap':>9}{'ratio':>9}")
for name, (losses, spread, gap, ratio) in patients.items():
    print(f"{name:20}{np.mean(losses[-10:]) - ln_K:12.2f}{spread:9.3f}{gap:9.2f}{ratio:9.4f}")

# %%
figure, (axes, dots) = plt.subplots(1, 2, figsize=(12, 4.6), width_ratios=[1.4, 1])
for k, (name, (losses, spread, gap, ratio)) in enumerate(patients.items()):
    axes.plot(range(1, len(losses) + 1), losses, label=name, color=f"C{k}",
              linewidth=2.5 if name == "healthy" else 1.3)
    dots.plot(max(spread, 1e-3), gap, "o", color=f"C{k}", markersize=2 + 70 * np.sqrt(ratio), alpha=0.6)
    dots.annotate(name, (max(spread, 1e-3), gap), (0, -22 if ratio > 0.05 else 12),
                  ha="center", textcoords="offset points", fontsize=9)
dots.set(xscale="log", xlabel="spread of the wrong scores", ylabel="gap, in spreads", xlim=(1e-4, 60),
         title="Spread and gap separate most;\nthe ratio, a dot's area, the rest")
dots.margins(0.2)
axes.axhline(ln_K, color="k", linestyle=":", label="ln K = 5.55")
axes.set(xlabel="step", ylabel="loss of 256 pairs (nats)", ylim=(4, 12),
         title="Seven runs: only the healthy one falls well below ln K")
axes.legend(loc="upper right", fontsize=9, ncols=2)
show(figure, "18_patients")

# %% [markdown]
# With shuffled replies it falls to about 5.55 and stays there: no input tells anything about its
# reply. Here is what the numbers say:
#
# | loss | spread | gap | ratio | then |
# | --- | --- | --- | --- | --- |
# | falls well below ln K | 1.2 to 1.3 | 2.1 to 2.4 | 0.021 to 0.024 | healthy |
# | falls to ln K, stays | shrinks, to 0.13 to 0.27 | 0.2 to 0.3 | 0.010 to 0.014 | messages and replies do not belong together: read ten pairs as *text* |
# | only noise | as at the start, 1.9 | as at the start, 0.7 to 1.1 | 0 | nothing is updated: the rate, or it updates a copy |
# | leaps up, then near ln K | 0.09 to 0.23 | 0.2 to 1.0 | 0.04 to 0.13, too large | the rate: divide by ten until it is quiet |
# | rises | grows, to 14 | negative | healthy | a sign; `directional_error` says so in two evaluations |
# | a little below ln K, flat | 0.31 | 1.5 to 1.7, between | healthy | the scores cannot grow: the scale (lesson 9) |
# | ln K to five digits | 0 | 0 | not 0 | all sentences have the same vector. Check the ids first, then each layer |
#
# A range is that of six seeds or more. Shuffled replies and a rate × 100 end at the same loss and spread, and often at
# nearly the same gap; only the ratio, 3 to 10 times as large, tells them apart. So look at all three.
#
# Even the healthy run starts *above* ln K. This encoder begins as a weighted bag of words, so at a scale of 15 its
# scores differ a lot from the first step on, and some of them are confidently wrong. Training first draws all scores
# together (their spread falls from 1.9 to 1.2 in forty steps), and lifts the true one above the others.

# %%
above = {name: np.mean(losses[-10:]) - ln_K for name, (losses, *_) in patients.items()}
expect(above["healthy"], -2, -0.1, "healthy: below ln K")
expect(above["replies shuffled"], -0.05, 0.3, "shuffled: near ln K")
claim("healthy: the gap in spreads", patients["healthy"][2], low=1.5)
claim("replies shuffled: the gap", abs(patients["replies shuffled"][2]), high=1)
expect(patients["no scale (s = 1)"][2], 1.2, 3, "no scale: the gap, as if healthy")
expect(above["no scale (s = 1)"], -0.4, 0, "no scale: the loss is stuck a little below ln K")
claim("ratio of the update: rate × 100 / replies shuffled",
      patients["rate × 100"][3] / patients["replies shuffled"][3], low=2.5)
expect(patients["gradient's sign"][2], -40, -0.05, "sign: the true reply is below the others")
expect(abs(above["every word unknown"]), 0, 1e-5, "every word unknown: ln K, to five digits")

# %% [markdown]
# ## The run
#
# Now a run without faults. Each pair comes once; the rates rise for 14 of the 138 steps and fall to
# zero at the end. We look at the loss on train, at the loss on dev *with as many pairs in a batch*,
# and at P@N: how often is the true reply among the N best of 100? Guessing gives N per cent.
#
# **Predict:** the untrained model and TF-IDF first. Above 1% at P@1, or not? Why?

# %%
pairs, candidates = draw_candidates(dev, 1_500)
at_random = rng.permutation(dev.pairs)    # in order, most of a batch would be one conversation
dev_batches = [dev.batch(at_random[k:k + optim.batch_size])
               for k in range(0, 2048, optim.batch_size)]


def measure(model):
    """P@1 and P@10 in per cent and the loss on eight batches of dev."""
    ranks = model_ranks(model, dev, pairs, candidates)
    losses = [float(loss_and_gradients(model, batch)[0]) for batch in dev_batches]
    return [precision(ranks, n) for n in (1, 10)], np.mean(losses)


model, optimizer = fresh()
losses, measured, seen = [], [(0, *measure(model))], []
order = batch_order(train.pairs, optim.batch_size, config.seed)
for step, which in zip(tqdm(range(config.steps), disable=None), order):
    rate = rates(optim, step, config.steps, len(which))
    seen.append(train.batch(which))
    losses.append(step_once(model, optimizer, seen[-1], *rate))
    if (step + 1) % 23 == 0:
        measured.append((step + 1, *measure(model)))

again = [float(loss_and_gradients(model, batch)[0]) for batch in seen]    # nothing is updated
inputs, responses = dev.sentences(2 * pairs), dev.sentences(2 * pairs + 1)
fitted = fitted_on_train(train, corpus.vocabulary.size)
lexical = ranks_of_truth(tfidf(inputs, *fitted), tfidf(responses, *fitted), candidates)
start, end = measured[0][1], measured[-1][1]
words = [precision(lexical, n) for n in (1, 10)]
for name, values in (("untrained", start), ("TF-IDF", words), ("trained", end)):
    print(f"{name:10} P@1 {values[0]:5.1f}   P@10 {values[1]:5.1f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5))
steps, smooth = [step for step, *_ in measured], np.convolve(losses, np.ones(20) / 20, "valid")
left.plot(np.arange(10, 10 + len(smooth)), smooth, label="train, when first seen (mean of 20)")
left.plot(np.arange(10, 10 + len(smooth)), np.convolve(again, np.ones(20) / 20, "valid"), "--",
          color="C0", label="the same batches, seen again at the end")
left.plot(steps, [loss for *_, loss in measured], "o-", color="C3", label="dev")
left.axhline(ln_K, color="k", linestyle=":", label="ln 256: all replies look alike")
left.axvline(14, color="grey", linewidth=0.8)                 # the end of the warm-up
left.set(xlabel="step (256 pairs each)", ylabel="loss (nats)", ylim=(0, 6.6),
         title="The loss is below ln K soon after the warm-up")
for k, n in enumerate((1, 10)):
    right.plot(steps, [values[k] for _, values, _ in measured], "o-", color=f"C{k}", label=f"P@{n}")
    right.axhline(n, color=f"C{k}", linestyle=":", label=f"guessing: {n} per cent")
    right.axhline(words[k], color=f"C{k}", linestyle="--", alpha=0.5, label=f"TF-IDF, P@{n}")
right.set(xlabel="step (256 pairs each)", ylabel="true reply among the N best of 100 (per cent)",
          ylim=(0, 65), title="Ahead of TF-IDF at P@10, not at P@1")
right.legend(ncols=2, loc="upper left", fontsize=9)
show(figure, "18_train_it")

# %% [markdown]
# Both are far above 1%, because a message and its answer share words. So that, not guessing, is the
# baseline. At P@1 the trained model is one to three points *below* TF-IDF, which is hard to beat where a
# rare word is shared. Where none is shared TF-IDF is lost, and at P@10 the model is 8 to 9 points ahead.
#
# Is it overfitting? The solid line can hardly tell: each pair comes once, so its loss is that of new
# pairs, if of conversations that it has partly seen. The dashed one can. It shows the same batches to the
# finished model, which has seen them all, and they lie 1.7 nats below dev on average: so much has been
# memorised. Those of steps 10 to 20 are known best, probably because the rates were highest then.
# (How certain are these figures? To about a point: √(p(1 − p)/n). Lesson 21 compares in a sharper way.)

# %%
claim("P@1 over TF-IDF, points", end[0] - words[0], low=-4)
claim("P@10 over TF-IDF, points", end[1] - words[1], low=5)
expect(measured[-1][2], 3, ln_K - 0.2, "loss on dev: below ln 256")
claim("loss on dev less that of all batches seen again", measured[-1][2] - np.mean(again), low=0.8)

# %% [markdown]
# ## What the warm-up is worth
#
# The same run twice more: without a warm-up of the matrices' rate (Adam), and without one of the
# tables' (Adagrad). That rate then falls from its full size at the first step to 0 at the end.
#
# **Predict:** which first steps do the harm, those of the matrices or those of the tables?

# %%
cold = {}
for k, name in enumerate(("matrices", "tables")):
    other, optimizer = fresh()
    for step, batch in enumerate(tqdm(seen, disable=None)):
        rate = list(rates(optim, step, config.steps, optim.batch_size))
        rate[k] = FULL[k] * (1 - step / config.steps)
        step_once(other, optimizer, batch, *rate)
    cold[name] = measure(other)[0][0]
    print(f"without a warm-up of the {name}: P@1 {cold[name]:.1f}; with both {end[0]:.1f}")
claim("P@1 that the tables' warm-up adds, points", end[0] - cold["tables"], low=0.5)
claim("P@1 that the matrices' warm-up adds, points", end[0] - cold["matrices"], -1, 1)

# %% [markdown]
# Those of the tables: without their warm-up the 2.9 points of P@1 that training adds are all lost
# (1.5 to 2.9 of some 3 in five other seeds). A row's first step moves it by 28%, on the evidence of one
# batch. A matrix moves by one per cent, and its warm-up adds 0.9 ± 0.4 here (paired), −0.1 to 0.7 in
# five other seeds: a third of a point, if anything.
#
# ## Where this lives
#
# - `core/loop.py`: `train_steps` is this lesson's loop. `rates` is next to it; `core/batches.py`: `batches`.
# - `core/ranking.py`: `draw_candidates`, `true_ranks`; ties count against the model, or all
#   sentences alike would score 100%.
# - The paper, §3.1: SGD, rate 0.01, batches of 128, 40 million steps; §4.1: 56.1% P@1 for the DAN.
#   Ours, with all of the corpus and full width: `convsim_mini/RESULTS.md`.

# %% [markdown]
# ## What you know now
#
# - Before a long run: the loss at the start, one batch memorised, the size of an update. A table's
#   first steps are long enough to spoil a good start: warm-up.
# - When a loss is stuck, three numbers show why: spread, gap and ratio.
# - Report a baseline with every score: 8 to 9 points of P@10 over TF-IDF, and one to three less at P@1.
#
# To read on: [A recipe for training neural networks](https://karpathy.github.io/2019/04/25/recipe/)
# by Andrej Karpathy. Next: lesson 19 asks which scores the loss is looking for.
#
# Solutions, for when you have tried: `lessons/solutions/18_train_it.py`.
