"""What a model card says of a run in words: on the report's page, and beside an exported run."""

from pathlib import Path

from ..core.counting import NUMBERS
from ..core.model import ENCODERS
from ..training.tasks import pairs_before


def what_it_is(config):
    """The first lines: what comes in, what goes out, how it was trained."""
    encoder = ENCODERS[config.model.encoder].title
    trained = "pick the true reply to a message among the replies to others"
    if config.task == "nli":
        trained = "tell whether one sentence follows from another"
    numbers = f"{config.model.layers[-1]} numbers"
    if config.model.word_weight:
        numbers += f" that are learned and {NUMBERS} that count its words"
    return (f"It turns a sentence into a vector of {numbers}. Sentences with similar meanings tend "
            f"to have a larger cosine. It is a {encoder} that `convsim_mini` trained to {trained}.")


def training_data(run, pairs=None):
    """Which pairs a Run was trained on, and how many. pairs: to train on; None: not known here."""
    config = run.config
    files = ", ".join(map(quoted, config.pairs)) or "`chitchat-dataset`"
    number = "pairs" if pairs is None else f"{pairs:,} pairs"
    data = f"{number} of message and reply from {files}"
    before = ""
    if config.task == "nli":
        data = "the sentence pairs of SNLI"
    elif config.task != "conversation":
        data += " and on sentence pairs of SNLI"
    if config.init:
        before = f" It started from the run {quoted(config.init)}, which had learned before."
    return (f"It was trained on {data}. Training drew {pairs_before(config, run.step):,} pairs in "
            f"all, repeats counted.{before}")


def quoted(path):
    """The last part of a path as code in Markdown, which ends at the next backtick."""
    return f"`{' '.join(Path(path).name.split()).replace('`', chr(39))}`"


def limits(config):
    """What to know before one relies on a run: a list."""
    encoder = ENCODERS[config.model.encoder]
    if encoder.reads_order:
        order = ("The order of words can change a vector; how much was not measured. Do not rely "
                 "on a negation to change it.")
        if longest := encoder.longest(config.model):
            order = f"It reads the first {longest:,} words of a sentence and no more. {order}"
    else:
        effect = "matters only between neighbours" if config.bigram_rows else "has no effect"
        order = f"The order of words {effect}. A negation changes a vector little."
    return ["It knows the language of its training data, and their words above all. Other words "
            f"share {config.text.oov_buckets:,} vectors.", order,
            "What people wrote in the training data shows in the vectors, prejudice included.",
            "License: whoever publishes it has to choose one that the training data allow."]
