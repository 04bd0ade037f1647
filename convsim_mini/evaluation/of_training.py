"""What training measures: dev along the way; at the end, the model before and after training."""

import numpy as np

from ..common.cli import one_line, python_m
from ..core.arrays import array_module, to_device
from ..core.losses import loss_of
from ..core.model import TABLE, embed
from ..core.ranking import N, precision
from ..fast.devices import device_module
from ..inference.sentence_encoder import encoder_of
from ..training.run import describe, load_run
from . import response, sts
from .baselines import bag_cosines
from .nli import classify
from .results import Measured, show

DEV_QUERIES = 5_000


def measuring_dev(config, corpus, tasks):
    """A function of a Model → its P@N, its loss and NLI's accuracy on dev.

    The loss is the mean over batches of dev, as large as in training if dev has enough pairs.
    """
    pairs, candidates = response.drawn(corpus.dev, DEV_QUERIES)
    size = min(config.optim.batch_size, len(pairs))
    order = np.random.Generator(np.random.Philox(config.seed)).permutation(len(pairs))
    batches = order[:len(order) // size * size].reshape(-1, size)

    def measure(model):
        xp = array_module(model.params[TABLE])
        u, v_prime = response.vectors(model, corpus.dev, pairs)
        ranks = response.ranks_of_truth(u, v_prime, candidates)
        loss, _ = loss_of(model.config)
        losses = [float(loss(*to_device((u[some], v_prime[some]), xp))[0]) for some in batches]
        record = {f"dev_p{n}": round(precision(ranks, n), 2) for n in N}
        record["dev_loss"] = round(float(np.mean(losses)), 4)
        if tasks.nli_dev:
            right = classify(model, tasks.nli_dev) == tasks.nli_dev.labels
            record["nli"] = round(100 * float(right.mean()), 2)
        return record

    return measure


def measured_on(config, corpus):
    """What `summary` measures, as two Measured: a Corpus's test split and a set of STS."""
    files = sts.find(config.data)                             # evaluation.sts shows all of them
    split = next((split for split in ("dev", "train") if split in files), "built-in set")
    return (Measured("response", "test", response.read(corpus)),
            Measured("sts", split, sts.read(files.get(split, sts.OWN))))


def with_baselines(config, corpus, model=None):
    """`measured_on`, with baselines: the model before training, and words.

    model: the model with its initial values, if it is already built
    """
    name = response.UNTRAINED
    if model is None:
        name, model = response.before_training(config, corpus)
    xp = device_module(config.device, config.precision)
    model = model._replace(params=to_device(model.params, xp))
    replies, pairs = measured_on(config, corpus)
    ranks = response.model_ranks(model, corpus.test, *replies.data[1:])
    similarity = sts.angular_similarity(*sts.unit_vectors(
        lambda texts: embed(model, corpus.vocabulary.encode(texts)), pairs.data))
    words = bag_cosines(sts.texts_of(pairs.data), *sts.sides(pairs.data), corpus.vocabulary)
    return (replies._replace(baselines={name: ranks, **response.of_words(replies.data)}),
            pairs._replace(baselines={name: similarity, **words}))


def summary(folder, corpus, before=None):
    """A text on what a run has learned: P@N on test and STS by its saved weights; what to try next.

    before: from `with_baselines`; None: call it here, and free its model before loading the run's
    """
    config = describe(folder).config
    before = before or with_baselines(config, corpus)
    run = load_run(folder, config.device)
    encode = encoder_of(run).encode
    megabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    told = "" if run.step else " Training did not improve them: there are too few pairs or steps."
    if told and not run.config.init:
        told += " Start from another run: --init RUN."
    losses = [record["dev_loss"] for record in run.measured]
    if run.step == run.config.steps and losses[-1] == min(losses):
        told = f" That is the last step, so more steps may help: --steps {2 * run.step}."
    texts = [text for pair in corpus.report["examples"] for text in pair]
    sentences = [*dict.fromkeys(one_line(text, 50) for text in texts)][:2]
    return "\n\n".join([
        *(show(one._replace(scores=one.of_task.scores(run, one.data, encode))) for one in before),
        f"The run is in {folder} ({megabytes:,.0f} MB), with the weights of step {run.step:,} of "
        f"{run.config.steps:,}, the best on dev.{told}\nLook at {folder}/curves.png. Try next:\n  "
        + "\n  ".join([
            python_m("convsim_mini.encode", folder, *sentences),
            python_m("convsim_mini.evaluation", folder),
            python_m("convsim_mini.train --config", folder / "config.json", "--run",
                     f"{folder}-again")])])
