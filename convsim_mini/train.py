"""Train a sentence encoder on conversations:  python -m convsim_mini.train

Without arguments: the DAN on chitchat-dataset, one to three minutes on two cores. --resume RUN goes
on with a run that was stopped. --task multitask --init RUN --nli DIR teaches a trained run natural
language inference beside its conversations. OMP_NUM_THREADS=1 mpiexec -n 4 python -m
convsim_mini.train … trains with four workers, each on one core (pip install mpi4py mpich).
"""

import itertools
import sys
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from textwrap import shorten

import numpy as np

from .backend import device_module, keep_freed_memory
from .cli import UserError, cut_report, errors_in_one_line, user_errors
from .data.corpus import false_negatives
from .data.prepare import open_corpus, told_if_cut
from .data.pairs import RULES
from .data.snli import encode_entailments, encode_snli
from .evaluation import response, sts
from .evaluation.nli import classify
from .evaluation.word_baselines import bag_cosines
from .model.initial import initial_model, initial_parameters
from .model.input_response import Model, embed
from .model.losses import batch_softmax_forward
from .model.projection import all_but_the_top
from .options import parse_config, resumed_folder
from .run import (
    check_resumed, existing, finished, has_checkpoint, keep_best, load_config, load_run, load_state,
    load_vocabulary, save_config, save_matrix, save_vocabulary,
)
from .snli_files import find_snli, read_snli
from .tables import table
from .training.distributed import ALONE, launched
from .training.loop import run_steps
from .training.schedule import Tasks
from .workspace import locked, sweep

DEV_QUERIES = 5_000
TOP_FROM = 20_000    # sentences, whose first direction is removed
IN_USE = "{}: another process trains in it; wait until it ends, or stop it"


def train(config, workers=ALONE):
    """Train a model as the Config says; → the run's folder, the corpus.

    Raises UserError for pair files, folders and devices that cannot be used.
    """
    with workers.in_turn():
        corpus, tasks, dev = prepare(config, parents_words(config), workers)
    if workers.rank:
        return train_from(None, config, corpus, tasks, dev, workers)
    params = starting_model(config, corpus).params
    with run_folder(config) as folder:
        save_config(folder, config)
        save_vocabulary(folder, corpus, tasks.nli_checksum)
        return train_from(folder, config, corpus, tasks, dev, workers, params)


def resume(folder, workers=ALONE):
    """Go on with a run from its last checkpoint, or from the start if it has none; → as `train`.

    On the CPU the final weights are those of a run that was never stopped, bit by bit with as many
    workers, up to rounding with others. A finished run is left as it is. Raises UserError where its
    files, its pairs or its NLI data are missing or changed, or where another process trains in it.
    """
    with nullcontext() if workers.rank else locked(existing(folder), IN_USE.format(folder)):
        begun = has_checkpoint(folder)
        run = load_run(folder, newest=True) if begun and workers.rank == 0 else None
        with workers.in_turn():
            config = load_config(folder)
            words = load_vocabulary(folder)[0] if begun else parents_words(config)
            corpus, tasks, dev = prepare(config, words, workers)
        start = ()
        if run:
            check_resumed(run, corpus, tasks.nli_checksum)
            start = run.model.params, run.step, load_state(run)
        elif workers.rank == 0:
            save_vocabulary(folder, corpus, tasks.nli_checksum)
            start = (starting_model(config, corpus).params,)
        return train_from(folder, config, corpus, tasks, dev, workers, *start)


def train_from(folder, config, corpus, tasks, dev, workers, params=None, step=0, state=None):
    """Train in a run's folder from the first worker's parameters on; → as `train`."""
    if config.optim.nli_workers:
        workers.take_roles(config.optim.nli_workers)
    folder, params, step, state = map(workers.broadcast, (folder, params, step, state))
    model = Model(params, config.model, corpus.vocabulary.size)
    if not workers.broadcast(has_checkpoint(folder) and finished(folder)):
        with told_if_cut(corpus):
            run_steps(folder, config, corpus.vocabulary, tasks, model, dev, step, state, workers)
    if workers.rank == 0:
        keep_best(folder)    # even of a run that had ended: it may have been killed before this
        save_all_but_the_top(load_run(folder), corpus)
    return folder, corpus


def parents_words(config):
    """The Vocabulary of the run that --init names, or None.

    Raises UserError where a setting asks for another table than that run has.
    """
    if not config.init:
        return None
    for name in ("words", "oov_buckets", "bigram_buckets"):
        asked, kept = (getattr(some.text, name) for some in (config, load_config(config.init)))
        if asked != kept:
            raise UserError(f"--text.{name} {asked}: a run that goes on with --init keeps that "
                            f"run's, {kept}; leave the option out")
    return load_vocabulary(config.init)[0]


def save_all_but_the_top(run, corpus):
    """Write the matrix that `encode` applies, from sentences of the train split of its Corpus."""
    rng = np.random.Generator(np.random.Philox(run.config.seed))
    sentences = 2 * corpus.train.pairs
    drawn = np.sort(rng.choice(sentences, min(TOP_FROM, sentences), replace=False))
    vectors = embed(run.model, corpus.train.sentences(drawn))
    save_matrix(run, "all_but_the_top", all_but_the_top(vectors))


def starting_model(config, corpus):
    """The Model before the first step: from the seed, or from the run that --init names.

    Raises UserError where that run has parameters of other shapes.
    """
    if not config.init:
        return initial_model(config, corpus)
    run = load_run(config.init)
    rng = np.random.Generator(np.random.Philox(config.seed))
    trained = run.model.params
    table = trained["encoder.embedding.weight"]
    params = initial_parameters(config.model, table, rng, config.classifies)
    if lost := [name for name in trained.keys() - params.keys() if not name.startswith("nli.")]:
        raise UserError(f"--init {config.init}: has {min(lost)}, which the settings leave out; "
                        "leave the model's settings to that run")
    for name, p in params.items():
        if name in trained or not name.startswith("nli."):
            shape = getattr(trained.get(name), "shape", None)
            if shape != p.shape:
                raise UserError(f"--init {config.init}: {name} has shape {shape}, but {p.shape} "
                                "follows from the settings; leave the model's settings to that run")
            params[name] = trained[name]
    return Model(params, config.model, corpus.vocabulary.size)


def prepare(config, vocabulary=None, workers=ALONE):
    """A Config's Corpus, its Tasks, what measures dev, after every check that needs no training.

    vocabulary: of the run to go on with, or None; with --init no batch is larger than the corpus
    """
    if config.optim.nli_workers and (workers.size == 1
                                     or config.task not in ("multitask", "entailment")):
        raise UserError(f"--optim.nli_workers {config.optim.nli_workers}: expected several workers "
                        "(mpiexec -n 4 python -m convsim_mini.train …) and --task multitask or "
                        "entailment; a single one has --nli_share")
    device_module(config.device, config.precision, workers.gpu)
    if config.device == "gpu":
        workers.check_nccl()
    keep_freed_memory()
    corpus = open_corpus(config, vocabulary)
    print(corpus_report(corpus.report))
    if config.init and corpus.train.pairs < config.optim.batch_size:
        config.optim.batch_size = corpus.train.pairs
        print(f"batches of {corpus.train.pairs} pairs: there are no more to train on\n")
    if config.model.encoder == "transformer":
        print(cut_report(config.model, np.diff(corpus.train.offsets)) + "\n")
    if config.pairs_fraction < 1:
        print(f"{corpus.train.pairs:,} pairs to train on ({config.pairs_fraction:.3g} of them)\n")
    nli = open_nli(config, corpus.vocabulary) if config.nli and (
        config.task != "conversation") else (None, None)
    tasks = Tasks(corpus.train, *nli)
    dropped = ["dropped_batch_size"] if config.optim.drop_at < 1 else []
    pairs = corpus.train.pairs
    fewest = max(2, workers.size * (2 if config.optim.local_negatives else 1))
    for name in ("batch_size", *dropped):
        if not fewest <= (size := getattr(config.optim, name)) <= pairs:
            raise UserError(f"--optim.{name} {size}: expected {fewest} to {pairs}, the pairs to "
                            "train on; change it, raise --pairs_fraction or add pairs")
    least = fewest if config.task == "entailment" else workers.size
    for name in ("nli_batch_size", *dropped) if tasks.nli else ():
        if not least <= (size := getattr(config.optim, name)) <= tasks.nli.pairs:
            raise UserError(f"--optim.{name} {size}: expected {least} to {tasks.nli.pairs}, the "
                            "NLI pairs to train on; change it or raise --nli_fraction")
    response.draw_candidates(corpus.test)
    for path in sts.find(config.data, None).values():
        sts.read(path)
    return corpus, tasks, measuring_dev(config, corpus, tasks)


def open_nli(config, vocabulary):
    """What config.nli holds for the task: splits to train on and, of classes, to measure on.

    → NliSplits train and dev, or an EntailmentSplit and None. Raises UserError where a file is
    missing or wrong.
    """
    files = find_snli(config.nli)
    if not {"train", "dev"} <= files.keys():
        raise UserError(f"{config.nli}: training needs snli_1.0_train and snli_1.0_dev, found "
                        f"{', '.join(files)}")
    train, dev = read_snli(files["train"]), read_snli(files["dev"])
    if config.task == "entailment":
        split = encode_entailments(train, vocabulary, config.nli_fraction, config.seed)
        print(f"SNLI: {split.pairs:,} entailments to train on ({config.nli_fraction:.0%})\n")
        return split, None
    split = encode_snli(train, vocabulary, config.nli_fraction, config.seed)
    print(f"SNLI: {split.pairs:,} pairs to train on ({config.nli_fraction:.0%} of the file), "
          f"{len(dev.labels):,} of dev; {train.dropped:,} and {dev.dropped:,} have no label\n")
    return split, encode_snli(dev, vocabulary)


def measuring_dev(config, corpus, tasks):
    """What a Monitor measures: a function of a Model → P@N, the loss and NLI's accuracy on dev.

    The loss is the mean over batches of dev as large as those of training, where dev is so large.
    """
    dev = corpus.dev
    pairs, candidates = response.draw_candidates(dev, DEV_QUERIES)
    order = np.random.Generator(np.random.Philox(config.seed)).permutation(len(pairs))
    size = min(config.optim.batch_size, len(pairs))
    batches = order[:len(order) // size * size].reshape(-1, size)
    masks = [false_negatives(*dev.keys[pairs[batch]].T) if config.optim.mask_false_negatives
             else None for batch in batches]

    def measure(model):
        u, v = response.vectors(model, dev, pairs)
        ranks = response.ranks_of_truth(u, v, candidates)
        losses = [batch_softmax_forward(u[batch], v[batch], config.model.scale, mask)[0]
                  for batch, mask in zip(batches, masks)]
        record = {"dev": {str(n): round(response.precision(ranks, n)[0], 2) for n in response.N},
                  "dev_loss": round(float(np.mean(losses)), 4)}
        if tasks.nli_dev:
            right = classify(model, tasks.nli_dev) == tasks.nli_dev.labels
            record["nli"] = round(100 * float(right.mean()), 2)
        return record

    return measure


@contextmanager
def run_folder(config):
    """Make the run's folder and hold its lock.

    Raises UserError if it holds files already, or cannot be made, or if another process is faster.
    """
    names = [config.run] if config.run else (
        f"runs/{config.preset}{'' if k == 1 else f'-{k}'}" for k in itertools.count(1))
    advice = "choose another folder with --run"
    for name in map(Path, names):
        with user_errors(f"{name}: cannot be made", advice):
            name.mkdir(parents=True, exist_ok=True)
            sweep(name)                                       # another may have been killed at once
            if not config.run and any(name.iterdir()):
                continue
        with ExitStack() as lock:
            try:
                lock.enter_context(locked(name, IN_USE.format(name)))
            except UserError:
                if config.run:
                    raise
                continue
            if not any(name.iterdir()):
                config.run = str(name)
                yield name
                return
    raise UserError(f"{config.run}: exists already and is left as it is; {advice}")


def corpus_report(report):
    """What became of the pairs that were read, as a table."""
    rows = [["pairs read", f"{report['read']:,}"],
            *([f"removed, {side}: {text}", f"{report['removed'].get(f'{side}: {rule}', 0):,}"]
              for rule, text in RULES.items() for side in ("input", "response")),
            *([f"kept for {split}", f"{number:,}"] for split, number in report["kept"].items())]
    if report["malformed"]:
        rows.insert(1, ["malformed", f"{report['malformed']:,}"])
    shown = "".join(f"  {shorten(text, 50)} → {shorten(reply, 50)}\n"
                    for text, reply in report["examples"]).encode("utf-8", "replace").decode()
    counted = table(["the corpus, after the paper's filters", ""], rows)
    return f"{counted}\n\nThe first pairs:\n{shown}"


def summary(folder, corpus):
    """What the run has learned, measured on the saved weights: test P@N, STS, what to try next."""
    run = load_run(folder)
    before, untrained = response.before_training(run, corpus)
    choices = response.read(corpus)
    files = sts.find(run.config.data, run)
    files.pop("test", None)                                   # evaluation.sts shows it
    split, path = (list(files.items()) or [("own set", sts.OWN)])[-1]
    pairs = sts.read(path)
    untrained_similarity = sts.similarity(untrained, run.vocabulary, pairs)
    similarity = sts.scores(run, pairs) | {before: untrained_similarity}
    lexical = bag_cosines(sts.texts_of(pairs), *sts.sides(pairs), run.vocabulary)
    megabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    command = "  python -m convsim_mini"
    return "\n\n".join([
        response.summary("test", choices, response.scores(run, choices),
                         response.baselines(run, choices)),
        sts.score_table(split, pairs, similarity | lexical),
        sts.extremes(similarity["trained"], pairs),
        f"The run is in {folder}, {megabytes:,.0f} MB: the weights of step {run.step:,} of "
        f"{run.config.steps:,}, the best on dev.\nLook at {folder}/p_at_n.png and "
        f"{folder}/loss.png. Try next:\n"
        f'{command}.encode {folder} "How old are you?" "What is your age?"\n'
        f"{command}.evaluation {folder}\n"
        f"{command}.train --config {folder}/config.json --run {folder}-again"])


@errors_in_one_line(must_show=False)
def main(argv=None):
    """The command: train or resume, then show the result. Of several workers the first shows it."""
    argv, workers = sys.argv[1:] if argv is None else argv, launched()
    with workers.job():
        with workers.in_turn():
            folder = resumed_folder(argv)
            config = None if folder else parse_config(argv)
        done = resume(folder, workers) if folder else train(config, workers)
        if workers.rank == 0:
            print(summary(*done))


if __name__ == "__main__":
    main()
