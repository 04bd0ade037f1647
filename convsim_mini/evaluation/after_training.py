"""What a training ends with: the run before and after it, measured, and what to try next."""

from ..common.cli import python_m
from ..training.run import describe, load_run
from . import response, sts


def measured_on(config, corpus):
    """What `summary` measures on: the TestSet of a Corpus; an Sts and its name."""
    files = sts.find(config.data)                             # evaluation.sts shows all of them
    split = next((split for split in ("dev", "train") if split in files), "own set")
    return response.read(corpus), sts.read(files.get(split, sts.OWN)), split


def untrained(config, corpus, tests, model=None):
    """`tests`, and the ranks and similarity there of the model before training: row name → (n,).

    tests: from `measured_on`; model: the one with its first values, if it is at hand
    """
    choices, pairs, _ = tests
    name = "the same, untrained"
    if model is None:
        name, model = response.before_training(config, corpus)
    return (tests, {name: response.model_ranks(model, corpus.test, *choices[1:])},
            {name: sts.similarity(model, corpus.vocabulary, pairs)})


def summary(folder, corpus, before=None):
    """What the run has learned, measured on the saved weights: test P@N, STS, what to try next.

    before: from `untrained`; None: build that model, and free it before the run's
    """
    if not before:
        config = describe(folder).config
        before = untrained(config, corpus, measured_on(config, corpus))
    (choices, pairs, split), ranks, similarity = before
    run = load_run(folder)
    megabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    command = "  " + python_m("convsim_mini")
    no_better = "" if run.step else " Training made it no better: too few pairs, or steps."
    if no_better and not run.config.init:
        no_better += " Start from another run: --init RUN."
    return "\n\n".join([
        response.summary("test", choices, response.scores(run, choices),
                         ranks | response.of_words(choices)),
        sts.short_summary(split, pairs, run, similarity),
        f"The run is in {folder}, {megabytes:,.0f} MB: the weights of step {run.step:,} of "
        f"{run.config.steps:,}, the best on dev.{no_better}\nLook at {folder}/curves.png. "
        "Try next:\n"
        f'{command}.encode {folder} "How old are you?" "What is your age?"\n'
        f"{command}.evaluation {folder}\n"
        f"{command}.train --config {folder}/config.json --run {folder}-again"])
