"""The faults: what is wrong, which part differs, which measurement tells, what to do."""

from math import inf
from typing import NamedTuple
from unittest import mock

import numpy as np

from convsim_mini.core import dan, model
from convsim_mini.core.model import embed
from convsim_mini.core.packed import Packed
from convsim_mini.core.batches import Split
from convsim_mini.data.units import text_key

from ..yours.exercises import EXERCISES
from ..yours.judge import mutant
from ..yours.training import in_place_of_the_librarys
from .training import NAMES, vectors


# ---------------------------------------------------------------- the parts that differ

def changed(name, old, new):
    """A context in which a backward of `lessons.yours`, changed, replaces the library's."""
    return lambda: in_place_of_the_librarys({name: mutant(name, (old, new))})


def replaced(module, name, function):
    """A context in which function(the library's, *arguments) takes the place of the library's."""
    own = getattr(module, name)
    return lambda: mock.patch.object(module, name, lambda *given: function(own, *given))


def overwritten():
    """The mistake of `lessons.yours` in which only a repeated row's last gradient is kept."""
    return next(mistake[:2] for mistake in EXERCISES["embedding_bag"].mistakes
                if "overwritten" in mistake[2])


def shuffled(corpus, rng):
    """Each message of train with the reply of another."""
    train, order = corpus.train, rng.permutation(corpus.train.pairs)
    which = np.stack([2 * np.arange(train.pairs), 2 * order + 1], axis=1)
    keys = np.stack([train.keys[:, 0], train.keys[order, 1]], axis=1)
    return corpus._replace(train=Split(*train.sentences(which.ravel()), keys))


def with_dev(corpus, rng):
    """Train holds all pairs of dev as well."""
    train, dev = corpus.train, corpus.dev
    return corpus._replace(train=Split(
        np.concatenate([train.ids, dev.ids]),
        np.concatenate([train.offsets, train.offsets[-1] + dev.offsets[1:]]),
        np.concatenate([train.keys, dev.keys])))


def by_message(corpus, rng):
    """Train and dev with the same pairs, but dev is drawn from all of them."""
    both = with_dev(corpus, rng).train
    is_dev = np.isin(np.arange(both.pairs), rng.choice(both.pairs, corpus.dev.pairs, False))
    train, dev = (Split(*both.sentences(np.stack([2 * k, 2 * k + 1], axis=1).ravel()), both.keys[k])
                  for k in (np.flatnonzero(~is_dev), np.flatnonzero(is_dev)))
    return corpus._replace(train=train, dev=dev)


def yes(corpus, rng):
    """A third of train's replies becomes "yes"."""
    train, said = corpus.train, np.int32(corpus.vocabulary.ids["yes"])
    packed = Packed(np.append(train.ids, said), np.append(train.offsets, len(train.ids) + 1))
    which, keys = np.arange(2 * train.pairs), train.keys.copy()
    lost = rng.random(train.pairs) < 1 / 3
    which[1::2][lost] = 2 * train.pairs
    keys[lost, 1] = text_key("yes")
    return corpus._replace(train=Split(*packed.take(which), keys))


def alphabetical(vocabulary, ids):
    """Ids by a vocabulary of the same words that is sorted otherwise."""
    order = np.argsort(vocabulary.pieces)
    table = np.arange(vocabulary.size, dtype=np.int32)
    table[1 + order] = 1 + np.arange(len(order))
    return table[ids]


def skipped(own, dy, cache):
    """response_backward that hands dv′ on as dv."""
    return dy, own(dy, cache)[1]


def as_sum(own, table, rows, lengths):
    """embedding_bag_forward without the √n."""
    return own(table, rows, np.ones_like(lengths))


class Fault(NamedTuple):
    """A patient's illness.

    what: in one sentence; differs: the part of Parts that is another; told_by: the evidence, each
    (measurement, label, least, most): all these numbers are within their ranges in a run with this
    fault and in no other; treatment: what to do
    """

    what: str
    differs: dict
    told_by: list
    treatment: str


FAULTS = {
    "healthy": Fault("Nothing is wrong.", {}, [], "None."),

    # what is trained on
    "replies-shuffled": Fault(
        "Each message has somebody else's reply.", {"data": shuffled},
        [("words", "train", 0, 4)],
        "Join messages and replies again. Then read ten pairs as text."),
    "dev-in-train": Fault(
        "The pairs of dev are trained on.", {"data": with_dev},
        [("split", "different, per cent", 80, 95)],
        "Choose the split by conversations, before anything else is done with the pairs."),
    "split-by-message": Fault(
        "The pairs are split by their messages: each conversation is in train and in dev.",
        {"data": by_message}, [("split", "dev's long texts in train, per cent", 40, 98)],
        "Split by conversations: a test next to train measures memory (lesson 23)."),
    "equal-replies": Fault(
        "A third of the replies was lost and became \"yes\".", {"data": yes},
        [("batch", "different replies", 60, 105)],
        "Count the most frequent replies, find the step that loses the true ones, and mend it."),
    "few-pieces": Fault(
        "The vocabulary has 1,000 pieces.", {"pieces": 1_000},
        [("vocabulary", "inside words in dev", 20, 100)],
        "Learn the pieces on all of train, and enough that most words are one piece."),
    "batches-by-length": Fault(
        "Each batch holds messages of one length.",
        {"order": lambda train: np.argsort(train.packed.lengths[::2], kind="stable")},
        [("batch", "words, largest mean", 30, inf)],
        "Draw the pairs of a batch at random. Sort by length inside a batch only."),
    "batches-of-neighbours": Fault(
        "A batch holds neighbours of one chat, in the corpus's order.",
        {"order": lambda train: np.arange(train.pairs)},
        [("batch", "different texts", 120, 180)],
        "Shuffle the pairs. Here a pair's reply is the next pair's message."),

    # the step
    "rate-too-high": Fault(
        "The learning rates are 100 times too high.", {"rates": (100.0, 100.0, 0.25)},
        [("steps", "first layer, first step", 0.045, inf),
         ("steps", "table, last step", 0.06, inf)],
        "Divide the rates by ten until the loss is quiet."),
    "rate-too-low": Fault(
        "The learning rates are 100 times too low.", {"rates": (0.01, 0.01, 0.25)},
        [("steps", "first layer, last step", 1e-9, 1e-4)],
        "Multiply the rates by ten until the table's ‖Δp‖/‖p‖ is near a hundredth."),
    "no-warm-up": Fault(
        "The rates are three times too high from the first step on; there is no warm-up.",
        {"rates": (3.0, 3.0, 0.0)},
        [("steps", "first layer, first step", 0.02, 0.04),
         ("steps", "first layer, last step", 0, 0.01)],
        "Let the rates rise over the first steps, and lower them."),
    "table-frozen": Fault(
        "The table is not updated.", {"frozen": NAMES["table"]},
        [("steps", "table, last step", 0, 1e-9), ("steps", "first layer, last step", 1e-4, inf)],
        "Hand the table's gradient to the optimiser, and look that it updates no copy."),
    "response-frozen": Fault(
        "The response network is not updated.", {"frozen": NAMES["response network"]},
        [("steps", "response network, last step", 0, 1e-9),
         ("steps", "table, last step", 1e-4, inf)],
        "Hand the response network's gradients to the optimiser."),
    "table-uphill": Fault(
        "The table's rows are updated with the wrong sign.", {"rates": (1.0, -1.0, 0.25)},
        [("direction", "table", -1, -0.1)], "Subtract the gradient."),

    # the model
    "scale-1": Fault(
        "The scale of the scores is 1.", {"scale": 1.0}, [("scores", "largest", 0.01, 1.01)],
        "Multiply the cosines by 20: in a range of −1 to 1 the loss cannot fall far (lesson 9)."),
    "no-root-n": Fault(
        "The bag is a sum: nothing is divided by √n.",
        {"inside": replaced(dan, "embedding_bag_forward", as_sum)},
        [("layers", "bag, 20 or more", 12, inf)], "Divide each sentence's sum by √n."),
    "layer-at-zero": Fault(
        "The first layer starts at zero.",
        {"start": lambda params: params[NAMES["first layer"]].fill(0)},
        [("layers", "after the first layer", 0, 1e-9)],
        "Start each layer at random or as the identity. No gradient passes a layer of zeros."),

    # the backward
    "last-write-wins": Fault(
        "Of a row that occurs several times in a batch only the last gradient is kept.",
        {"inside": changed("embedding_bag", *overwritten())},
        [("gradients", "table, relative error", 1e-3, 1),
         ("gradients", "first layer, relative error", 0, 1e-6)],
        "Add up: np.add.at, not table[rows] +=."),
    "tanh-without-slope": Fault(
        "The backward of tanh lacks the slope 1 − y².",
        {"inside": changed("tanh", " * (1 - y * y)", "")},
        [("gradients", "first layer, relative error", 1e-3, 1),
         ("gradients", "second layer, relative error", 0, 1e-6)], "Multiply dy by 1 − y²."),
    "response-skipped": Fault(
        "The gradient of v is that of v′: it does not pass the response network.",
        {"inside": replaced(model, "response_backward", skipped)},
        [("gradients", "second layer, relative error", 1e-3, 1),
         ("gradients", "response network, relative error", 0, 1e-6)],
        "Pass dv′ back through the unit length and both paths, and add."),
    "loss-not-averaged": Fault(
        "The loss is a mean, and its gradient lacks the 1/B.",
        {"inside": changed("batch_softmax", " / len(p)", "")},
        [("gradients", "response network, length ratio", 2, inf)],
        "Divide by B. Adam and Adagrad hide this fault, because they divide by the gradient's "
        "size; SGD does not."),

    # the evaluation
    "sides-exchanged": Fault(
        "The evaluation takes messages for replies and replies for messages.",
        {"vectors": lambda model, messages, replies: vectors(model, replies, messages)},
        [("evaluation", "by v · u′, off by", 0, 1e-6),
         ("evaluation", "by u · v′, off by", 1e-5, inf)], "Exchange them."),
    "no-response-network": Fault(
        "The evaluation compares u with v; training compares it with v′.",
        {"vectors": lambda model, *both: [embed(model, side) for side in both]},
        [("evaluation", "by u · v, off by", 0, 1e-6),
         ("evaluation", "by u · v′, off by", 1e-5, inf)],
        "Let the replies pass the response network in the evaluation, too."),
    "other-ids": Fault(
        "The evaluation reads ids by a vocabulary in another order.", {"read": alphabetical},
        [("ids", "agree, per cent", 0, 50)], "Save the vocabulary with the weights."),
}

# Of a hard patient's two faults one is in the data, and one does not depend on them: all that tells
# a single fault tells it here, too.
IN_DATA = [name for name, row in FAULTS.items() if row.differs.keys() & {"data", "pieces", "order"}]
ELSEWHERE = [name for name, row in FAULTS.items()
             if row.told_by and row.told_by[0][0] in ("gradients", "evaluation", "ids")]
