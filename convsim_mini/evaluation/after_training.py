"""What training shows at its end: the model before and after training, and what to try next."""

import numpy as np

from ..common.cli import one_line, python_m
from ..core.arrays import array_module, to_device
from ..core.model import TABLE, embed
from ..inference.sentence_encoder import encoder_of
from ..training.dev import DEV_QUERIES
from . import response, sts
from .baselines import bag_cosines
from .results import Measured, show


def pairs_of(data):
    """The STS set of a folder, or our own set, as (its name, the Sts). Raises UserError."""
    files = sts.find(data)                                    # `evaluation` shows all of them
    split = next((split for split in ("dev", "train") if split in files), "built-in set")
    return split, sts.read(files.get(split, sts.OWN))


def summary(run):
    """Two texts: what a Run has learned, P@N on test and STS by its saved weights; what is next.

    Both tables have the model before training and words as baselines.
    """
    config, folder, encode = run.config, run.folder, encoder_of(run).encode
    test = response.read(*response.find(None, run).values())
    split, pairs = pairs_of(config.data)
    name, before = response.before_training(run, test.corpus)
    xp = array_module(run.model.params[TABLE])                # on the run's device
    before = before._replace(params=to_device(before.params, xp))
    ranks = {name: response.model_ranks(before, test.corpus.test, *test[1:])}
    similarity = {name: np.cos(sts.angular_similarity(*sts.unit_vectors(
        lambda texts: embed(before, run.vocabulary.encode(texts)), pairs)))}
    words = bag_cosines(sts.texts_of(pairs), *sts.sides(pairs), run.vocabulary)
    tables = (Measured("response", "test", test, response.scores(run, test),
                       ranks | response.of_words(test)),
              Measured("sts", split, pairs, sts.scores(run, pairs, encode), similarity | words))
    megabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    reason = "there are too few pairs or steps."
    if config.init and name == "before training":
        reason = f"{config.init} was trained on the same pairs."
    told = "" if run.step else f" Training did not improve them: {reason}"
    if told and not config.init:
        told += " Start from another run: --init RUN."
    losses = [record["dev_loss"] for record in run.measured]
    error = 1 / np.sqrt(min(DEV_QUERIES, test.corpus.dev.pairs))    # (ours) of a loss's change
    if run.step == config.steps and losses[-1] < min(losses[:-1]) - error:
        told = f" That is the last step, so more steps may help: --steps {2 * run.step}."
    texts = [text for pair in test.corpus.report["examples"] for text in pair]
    sentences = [*dict.fromkeys(one_line(text, 50) for text in texts)][:2]
    commands = (python_m("convsim_mini.encode", folder, *sentences),
                python_m("convsim_mini.evaluation", folder),
                python_m("convsim_mini.train --config", folder / "config.json", "--run",
                         f"{folder}-again"))
    weights = (f"The weights are those of step {run.step:,} of {config.steps:,}, the best on dev."
               f"{told}")
    return "\n\n".join([*map(show, tables), weights]), (
        f"The run is in {folder} ({megabytes:,.0f} MB). Look at {folder}/curves.png. Try next:\n  "
        + "\n  ".join(commands))
