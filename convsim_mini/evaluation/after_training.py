"""What training shows at its end: the model before and after training, and what to try next."""

from dataclasses import replace

from ..common.cli import one_line, python_m
from ..inference.sentence_encoder import encoder_of
from ..training.run import describe
from . import BUILT_IN, response, sts
from .results import measure, show


def sts_of(data):
    """The name and source of the STS set to show: dev or train of a folder, or our own set.

    Raises UserError if the folder has none.
    """
    files = sts.find(data)
    name = next(name for name in ("dev", "train", BUILT_IN, *files) if name in files)
    return name, files[name]


def summary(run):
    """Two texts: what a Run has learned, P@N on test and STS by its saved weights; what is next."""
    config, folder = run.config, run.folder
    (own_pairs, corpus), = response.find(None, run).items()
    name, model = response.before_training(run, corpus)
    run = run._replace(initial=model)                         # so that it is made only once
    test = measure(run, "response", own_pairs, corpus)
    pairs = measure(run, "sts", *sts_of(config.data))
    before = sts.scores(None, pairs.data, encoder_of(run._replace(model=model)).encode)
    pairs = replace(pairs, baselines={name: before["trained, as cosine"], **pairs.baselines})

    weights = f"The weights are those of step {run.step:,} of {config.steps:,}, the best on dev."
    if not run.step and config.init and (
            describe(config.init).corpus_checksum == run.corpus_checksum):
        weights += f" Training did not improve them: {config.init} was trained on the same pairs."
    elif not run.step:
        weights += (" Training did not improve them: there are too few pairs or steps."
                    + " Start from another run: --init RUN." * (not config.init))

    megabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    texts = [text for pair in corpus.report["examples"] for text in pair]
    sentences = [*dict.fromkeys(one_line(text, 50) for text in texts)][:2]
    commands = (python_m("convsim_mini.encode", folder, *sentences),
                python_m("convsim_mini.evaluation", folder),
                python_m("convsim_mini.train --config", folder / "config.json", "--run",
                         f"{folder}-again"))
    return "\n\n".join([show(test), show(pairs), weights]), (
        f"The run is in {folder} ({megabytes:,.0f} MB). Look at {folder}/curves.png. Try next:\n  "
        + "\n  ".join(commands))
