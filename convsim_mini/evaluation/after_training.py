"""What a training ends with: the run before and after it, measured, and what to try next."""

from ..common.cli import python_m
from ..training.run import describe, load_run
from . import response, sts
from .baselines import bag_cosines
from .results import Measured, show


def measured_on(config, corpus):
    """What `summary` measures on: the test split of a Corpus and a set of STS, a Measured each."""
    files = sts.find(config.data)                             # evaluation.sts shows all of them
    split = next((split for split in ("dev", "train") if split in files), "own set")
    return (Measured("response", "test", response.read(corpus)),
            Measured("sts", split, sts.read(files.get(split, sts.OWN))))


def untrained(config, corpus, tests, model=None):
    """`tests`, from `measured_on`, with the model before training as their baseline.

    model: the one with its first values, if it is at hand
    """
    replies, similarity = tests
    name = "the same, untrained"
    if model is None:
        name, model = response.before_training(config, corpus)
    ranks = response.model_ranks(model, corpus.test, *replies.data[1:])
    angles = sts.similarity(model, corpus.vocabulary, similarity.data)
    return (replies._replace(baselines={name: ranks}),
            similarity._replace(baselines={name: angles}))


def summary(folder, corpus, before=None):
    """What the run has learned, measured on the saved weights: test P@N, STS, what to try next.

    before: from `untrained`; None: build that model, and free it before the run's
    """
    if not before:
        config = describe(folder).config
        before = untrained(config, corpus, measured_on(config, corpus))
    run = load_run(folder)
    (test, pairs), shown = (one.data for one in before), []
    words = (response.of_words(test),
             bag_cosines(sts.texts_of(pairs), *sts.sides(pairs), run.vocabulary))
    for one, of_words in zip(before, words):
        shown.append(show(one._replace(scores=one.module.scores(run, one.data),
                                       baselines=one.baselines | of_words)))
    megabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    command = "  " + python_m("convsim_mini")
    no_better = "" if run.step else " Training did not improve it: too few pairs or steps."
    if no_better and not run.config.init:
        no_better += " Start from another run: --init RUN."
    return "\n\n".join([
        *shown,
        f"The run is in {folder}, {megabytes:,.0f} MB: the weights of step {run.step:,} of "
        f"{run.config.steps:,}, the best on dev.{no_better}\nLook at {folder}/curves.png. "
        "Try next:\n"
        f'{command}.encode {folder} "How old are you?" "What is your age?"\n'
        f"{command}.evaluation {folder}\n"
        f"{command}.train --config {folder}/config.json --run {folder}-again"])
