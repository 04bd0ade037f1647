"""Train a sentence encoder on conversations:  python -m convsim_mini.train

Without arguments: the DAN on chitchat-dataset, one to three minutes on two cores. --resume RUN
continues a run that was stopped. With --task multitask --init RUN --nli DIR a run learns inference,
too. training/distributed.py says how to start several workers.
"""

import dataclasses
import itertools
import json
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from textwrap import shorten

import numpy as np

from .common.cli import UserError, errors_in_one_line, python_m
from .common.files import OURS, locked, write_text
from .common.tables import table
from .core.arrays import array_module, to_device
from .core.losses import loss_of
from .core.model import TABLE, Model, embed, respond
from .core.ranking import N, precision
from .data.pairs import RULES
from .data.prepare import open_corpus
from .data.snli import encode_entailments, encode_snli, find_snli, read_snli
from .data.tables_and_logs import FIELDS
from .evaluation import response
from .evaluation.after_training import measured_on, summary, with_baselines
from .evaluation.nli import classify
from .fast.devices import device_module
from .fast.loops import numba_module
from .fast.threads import claim_process
from .inference.sentence_encoder import load, tell_cut
from .training.chunks import LESS_MEMORY
from .training.distributed import launched
from .training.initial import initial_model, initial_parameters
from .training.loop import Job, run_steps
from .training.monitor import scores_on_dev
from .training.options import parse, parse_config
from .training.run import (
    LOG, TRAINING, Run, check_corpus, describe, finished, load_run, newest, read_log, save_run)
from .training.tasks import Tasks, fitting_batches, with_steps
from .training.workers import ALONE

DEV_QUERIES = 5_000
IN_USE = "{}: another process trains in it; wait until it ends, or stop it"


def train(config, workers=ALONE):
    """Train a model as the Config says; → what `summary` takes. Raises UserError."""
    with workers.in_turn():
        vocabulary = describe(config.init).vocabulary if config.init else None
        config, job = prepare(config, vocabulary, workers)
    if workers.rank:
        return run_to_the_end(None, job)
    corpus = job.corpus
    model = starting_model(config, corpus)
    with run_folder(config) as folder:
        config = dataclasses.replace(config, run=str(folder))
        run = Run(folder / TRAINING, config, corpus.vocabulary, None, corpus=corpus.checksum,
                  nli=job.tasks.nli_checksum)
        save_run(run)    # so that it can be resumed from now on
        before = None if config.init else with_baselines(config, corpus, job.tests, model)
        return *run_to_the_end(run._replace(model=model), job), before


def fit(pairs, run=None, **settings):
    """As convsim_mini.fit: pairs that stand in no file are written into RUN.pairs.jsonl."""
    own = None if run else tempfile.TemporaryDirectory(prefix="convsim_mini-")
    folder, rows = Path(run or own.name + "/run"), None
    if hasattr(pairs, "columns"):
        files = rows = pairs.to_dict("records")
    else:
        files = [pairs] if isinstance(pairs, (str, Path)) else [*pairs]
        if not all(isinstance(file, (str, Path)) for file in files):
            wrong = [one for one in files if type(one) not in (tuple, list) or len(one) != 2]
            if wrong:
                raise UserError(f"pairs: one is {str(wrong[0])[:60]!r}; expected (message, reply)")
            rows = [dict(zip(FIELDS, pair)) for pair in files]
    if not files:
        raise UserError("pairs is empty; give about 3,500, or 500 with init=RUN")
    if rows is not None:
        files = [f"{folder}.pairs.jsonl"]
    argv = ["--run", str(folder), "--pairs", *map(str, files)]
    for name, value in settings.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        argv += [f"--{name}", *("null" if one is None else str(one) for one in values)]
    config = parse_config(argv)
    if rows is not None:
        if folder.exists():
            raise UserError(f"{folder}: exists already; choose another folder with run=")
        folder.parent.mkdir(parents=True, exist_ok=True)
        write_text(Path(*files), "".join(f"{json.dumps(row, default=str)}\n" for row in rows))
    print(summary(*train(config)))
    encoder = load(folder)
    encoder.log, encoder.folder = read_log(folder / LOG), own or folder
    return encoder


def resume(folder, workers=ALONE):
    """Continue a run from its last checkpoint; → as `train`.

    On the CPU and with as many workers as before, the final weights have the bits of a run that was
    never stopped. A finished run is left as it is. Raises UserError where its files, its pairs or
    its NLI data are missing or changed, or where another process trains in it.
    """
    with ExitStack() as lock:
        if workers.rank == 0:
            newest(folder)                                    # or a mistyped folder would be made
            lock.enter_context(locked(folder, IN_USE.format(folder)))
        with workers.in_turn():
            saved = describe(newest(folder))
            config, job = prepare(saved.config, saved.vocabulary, workers)
        check_corpus(saved, job.corpus)
        if saved.nli != job.tasks.nli_checksum:
            raise UserError(f"{saved.config.nli}: these NLI data are not those that {folder} was "
                            "trained on; put those back or train again")
        if workers.broadcast(finished(folder)):
            return folder, job.corpus
        run = None
        if workers.rank == 0:
            run = load_run(saved.path) if saved.step else saved._replace(
                model=starting_model(config, job.corpus))
            run = run._replace(config=config)
        return run_to_the_end(run, job)


def run_to_the_end(run, job):
    """Train the first worker's Run to its end; keep the best weights; → its folder, the Corpus.

    The Run's parameters are deleted: whoever needs the best ones afterwards loads them.
    """
    workers = job.workers
    run = workers.broadcast(run)
    if run.config.optim.nli_workers:
        workers.take_roles(run.config.optim.nli_workers)
    if workers.rank == 0:
        settings = json.dumps(dataclasses.asdict(run.config), indent=2)
        write_text(run.folder / "config.json", f"{settings}\n")    # for people, and --config
    params = run.model.params
    run_steps(run, job)
    if workers.rank == 0:
        params.clear()
        finish(load_run(run.folder), job.corpus)
    return run.folder, job.corpus


def finish(run, corpus):
    """Save a Run's best weights for good: the first ones where no step was better on dev."""
    scores = scores_on_dev(run.config, run.measured)
    if scores[0] > scores[run.step]:
        run = run._replace(model=starting_model(run.config, corpus), step=0)
    model = run.model
    if run.config.half:
        params = {name: p.astype(np.float16) for name, p in model.params.items()}
        model = model._replace(params=params)
    save_run(run._replace(model=model, state={}))
    (run.folder / TRAINING).unlink()


def starting_model(config, corpus):
    """The Model before the first step, from the seed or --init's run. Raises UserError."""
    if not config.init:
        return initial_model(config, corpus)
    rng = np.random.Generator(np.random.Philox(config.seed))
    trained = load_run(config.init).model.params
    params = initial_parameters(config.model, trained[TABLE], rng, config.classifies)
    # NLI's classifier may begin here
    params |= {name: p for name, p in trained.items() if name in params}
    return Model(params, config.model, corpus.vocabulary.size)


def prepare(config, vocabulary=None, workers=ALONE):
    """Every check that needs no training; → the Config with all its numbers, its Job.

    Raises UserError.
    """
    if config.optim.nli_workers and (workers.size == 1 or len(config.taught) == 1):
        raise UserError(f"--optim.nli_workers {config.optim.nli_workers}: expected several workers "
                        "and --task multitask or entailment; a single worker has --nli_share")
    device_module(config.device, config.precision, workers.gpu)
    if config.device == "gpu":
        workers.check_nccl()
    claim_process()
    if config.second_task:                                    # before the pairs: they take longer
        find_snli(config.nli, ("train", "dev"), all_needed=True)
    corpus = open_corpus(config, vocabulary)
    print(corpus_report(corpus.report))
    tell_cut(config.model, np.diff(corpus.train.offsets))
    if config.pairs_fraction < 1:
        print(f"{corpus.train.pairs:,} pairs to train on ({config.pairs_fraction:.3g} of them)\n")
    tasks = Tasks(corpus.train)
    if config.second_task:
        tasks = Tasks(corpus.train, *open_nli(config, corpus.vocabulary))
    config = with_steps(fitting_batches(config, tasks, workers.size), tasks)
    slower = config.model.encoder == "dan" and config.device == "cpu" and config.steps >= 300
    if slower and not workers.rank and not numba_module():
        print(f"Steps are faster with numba: {python_m('pip install numba')}\n")
    tests = measured_on(config, corpus)                       # now, or a mistake would tell late
    return config, Job(corpus, tasks, measuring_dev(config, corpus, tasks), tests, workers)


def open_nli(config, vocabulary):
    """NLI's Splits to train on and to measure on; entailments have None for the second."""
    files = find_snli(config.nli, ("train", "dev"), all_needed=True)
    train = read_snli(files["train"])
    encode = encode_snli if config.classifies else encode_entailments
    split = encode(train, vocabulary, config.nli_fraction, config.seed)
    print(f"SNLI: {split.pairs:,} {split.task.replace('classes', 'pairs')} to train on "
          f"({config.nli_fraction:.0%}); {train.dropped:,} pairs of the file have no label or no "
          "text\n")
    return split, encode_snli(read_snli(files["dev"]), vocabulary) if config.classifies else None


def measuring_dev(config, corpus, tasks):
    """What a Monitor measures: a function of a Model → P@N, the loss and NLI's accuracy on dev.

    The loss is the mean over batches of dev, as large as in training where dev has enough pairs.
    """
    dev = corpus.dev
    pairs, candidates = response.drawn(dev, DEV_QUERIES)
    size = min(config.optim.batch_size, len(pairs))
    order = np.random.Generator(np.random.Philox(config.seed)).permutation(len(pairs))
    batches = order[:len(order) // size * size].reshape(-1, size)

    def measure(model):
        xp = array_module(model.params[TABLE])
        u, v = (embed(model, dev.sentences(2 * pairs + side)) for side in (0, 1))
        v_prime = respond(model, v)
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


@contextmanager
def run_folder(config):
    """Make the run's folder and hold its lock. Raises UserError where that cannot be."""
    names = (f"runs/{config.preset}-{k}".removesuffix("-1") for k in itertools.count(1))
    folder = Path(config.run or next(name for name in names if not Path(name).exists()))
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, IN_USE.format(folder)):
        if not all(path.name.startswith(OURS) for path in folder.iterdir()):
            raise UserError(f"{folder}: exists already and is left as it is; choose another "
                            "folder with --run")
        yield folder


def corpus_report(report):
    """What became of the pairs that were read, as a table."""
    counts = {"pairs read": report["read"], "malformed": report["malformed"]}
    for rule, text in RULES.items():
        for side in ("input", "response"):
            counts[f"removed, {side}: {text}"] = report["removed"].get(f"{side}: {rule}", 0)
    counts |= {f"kept for {split}": number for split, number in report["kept"].items()}
    rows = [[what, f"{number:,}"] for what, number in counts.items()]
    shown = "".join(f"  {shorten(text, 50)} → {shorten(reply, 50)}\n"
                    for text, reply in report["examples"])
    counted = table(["the corpus, after the paper's filters", ""], rows)
    return f"{counted}\n\nThe first pairs:\n{shown}"


@errors_in_one_line(LESS_MEMORY)
def main(argv=None):
    """The command: train or resume, then show the result. Of several workers the first shows it."""
    argv = sys.argv[1:] if argv is None else argv
    workers = launched()    # with one process its methods do nothing: skip them
    with workers.job():
        with workers.in_turn():
            folder = parse(argv).get("resume")
            config = None if folder else parse_config(argv)
        if folder:
            done = resume(Path(folder), workers)
        else:
            done = train(config, workers)
        if workers.rank == 0:
            print(summary(*done))


if __name__ == "__main__":
    main()
