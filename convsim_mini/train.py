"""Train a sentence encoder on conversations:  python -m convsim_mini.train

Without arguments, it trains the DAN on chitchat-dataset in one to three minutes on two cores.
--resume RUN continues a run that was stopped. With --task multitask --init RUN --nli DIR, it also
learns inference. training/workers.py says how to start several workers.
"""

if not __package__:
    raise SystemExit("run it by name, in the repository: python -m convsim_mini.train")

import dataclasses
import json
import sys
import threading
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path

from .common.files import in_16_bits, write_text
from .common.cli import ENDING, UserError, errors_in_one_line, handling, user_errors
from .data.prepare import corpus_report, open_corpus
from .core.arrays import array_module, to_device
from .core.loop import train_steps
from .core.optim import OPTIMIZERS
from .data.labelled import find_snli
from .data.layouts import Reading
from .data.pairs import write_pairs
from .fast.devices import device_module, machine
from .fast.threads import use_all_cores
from .training.dev import DEV_QUERIES, drawn, measuring_dev, scores_on_dev
from .training.start import initial_model
from .training.monitor import Monitor
from .training.options import config_of, parse
from .training.run import (
    PAIRS, TRAINING, Run, check_corpus, describe, finished, load_run, lock_of, new_run_folder,
    newest, save_run)
from .training.tasks import (
    batches_of_tasks, fitting_batches, open_tasks, warn_if_cut, with_steps)
from .training.workers import SINGLE_WORKER, launched

UNKNOWN_SHARE = 0.1    # of the words of other pairs


def train(config, workers=SINGLE_WORKER, pairs=None):
    """Train a model as the Config says; → the Run, with its best weights. Raises UserError.

    pairs: what `fit` was given; it is copied into the run's folder first
    """
    if workers.rank:
        return _train(config, workers)
    with new_run_folder(config) as folder:
        config = dataclasses.replace(config, run=str(folder))
        if pairs is not None:
            with user_errors(f"{folder}: cannot be written", "make room or choose another run="):
                write_pairs(pairs, folder / PAIRS, Reading(tuple(config.columns), config.encoding))
            config = dataclasses.replace(config, pairs=[str(folder / PAIRS)])
        return _train(config, workers)


def _train(config, workers):
    with workers.in_turn():
        vocabulary = describe(config.init).vocabulary if config.init else None
        config, corpus, tasks = prepare(config, vocabulary, workers)
    if workers.rank:
        return run_to_the_end(None, corpus, tasks, workers)
    model = starting_model(config, corpus)
    run = Run(Path(config.run, TRAINING), config, corpus.vocabulary, None, corpus=corpus.checksum,
              nli=tasks.nli_checksum)
    save_run(run)    # so that it can be resumed from now on
    initial = model._replace(params={name: p.copy() for name, p in model.params.items()})
    run = run_to_the_end(run._replace(model=model), corpus, tasks, workers)
    return run._replace(initial=initial)


def resume(folder, workers=SINGLE_WORKER, device=None):
    """Continue a run from its last checkpoint, perhaps on another device; → the Run, as `train`.

    On the CPU and with as many workers as before, the final weights are bit for bit those of a run
    that was never stopped. A finished run is not changed. Raises UserError if the run's files, its
    pairs or its NLI data are missing or changed, or if another process is training in its folder.
    """
    run = None
    with lock_of(folder) if workers.rank == 0 else nullcontext():
        with workers.in_turn():
            saved = describe(newest(folder))
            config = dataclasses.replace(saved.config, device=device or saved.config.device)
            saved = saved._replace(config=config)
            _, corpus, tasks = prepare(config, saved.vocabulary, workers)
        check_corpus(saved, corpus)
        if saved.nli != tasks.nli_checksum:
            raise UserError(f"{saved.config.nli}: these NLI data are not those that {folder} was "
                            "trained on; put the old files back or train again")
        if workers.broadcast(finished(folder)):
            return load_run(folder, config.device)
        if workers.rank == 0:
            run = (load_run(saved.path)._replace(config=config) if saved.step else
                   saved._replace(model=starting_model(config, corpus)))
            if saved.step and not run.state and config.optim.optimizer != "sgd":
                raise UserError(f"{saved.path}: lacks the optimiser's state, as a copy of a model "
                                "does; restore it, or train on from the model: --init")
        return run_to_the_end(run, corpus, tasks, workers)


def prepare(config, vocabulary=None, workers=SINGLE_WORKER):
    """Make every check that needs no training; → the completed Config, the Corpus and its Tasks.

    Raises UserError.
    """
    device_module(config.device, config.precision, workers.gpu)
    if config.device == "gpu":
        workers.check_nccl()
    if config.nli_task:                                    # before the pairs: they take longer
        find_snli(config.nli, ("train", "dev"), all_needed=True)
    corpus = open_corpus(config, vocabulary)
    use_all_cores()                                        # from here on, freed memory is kept
    print(corpus_report(corpus.report))
    warn_if_cut(config.model, corpus.train.offsets)
    tasks = open_tasks(config, corpus)
    config = with_steps(fitting_batches(config, tasks, workers.size), tasks)
    drawn(corpus.test, DEV_QUERIES)                           # now, so that mistakes show early
    unknown = corpus.report["unknown"]
    if unknown > UNKNOWN_SHARE:
        print(f"{unknown:.0%} of the words have letters that the run of --init does not know; "
              "train without --init instead\n")
    if config.pairs_fraction < 1:
        print(f"{corpus.train.pairs:,} pairs to train on ({config.pairs_fraction:.3g} of all "
              "pairs)\n")
    return config, corpus, tasks


def starting_model(config, corpus):
    """The Model before the first step, from the seed or --init's run. Raises UserError."""
    trained = load_run(config.init).model if config.init else None
    return initial_model(config, corpus, trained)


def run_to_the_end(run, corpus, tasks, workers):
    """Train the first worker's Run to its end; → that Run with its best weights, for the first."""
    run = workers.broadcast(run)
    if workers.rank == 0:
        settings = json.dumps(dataclasses.asdict(run.config), indent=2)
        write_text(run.folder / "config.json", f"{settings}\n")    # for people, and --config
    params = run.model.params
    run_steps(run, tasks, measuring_dev(run.config, corpus, tasks), workers)
    if workers.rank:
        return run
    params.clear()                                            # they are read again
    finish(load_run(run.folder), corpus)
    return load_run(run.folder, run.config.device)


def run_steps(run, tasks, dev, workers=SINGLE_WORKER):
    """Train a Run from its current step to its last; measure and save it `evaluations` times.

    Its parameters change in place if they are on the device already. Ctrl-C, SIGTERM and SIGHUP
    save a checkpoint after the current step and raise KeyboardInterrupt. A loss that is nan or far
    too large raises UserError, and no checkpoint is saved. With several workers, only the first
    one measures, shows progress and saves. dev: a function, Model → its measures on dev
    """
    config, leads = run.config, workers.rank == 0
    xp = device_module(config.device, config.precision, workers.gpu)
    model = run.model._replace(params=to_device(run.model.params, xp))
    optimizer = OPTIMIZERS[config.optim.optimizer](model.params)
    for name, saved in run.state.items():
        own = optimizer.state[name]
        own[...] = array_module(own).asarray(saved)
    batches = islice(batches_of_tasks(config, tasks, run.step), config.steps - run.step)
    every = -(-config.steps // config.evaluations)
    monitor = Monitor(run, dev, machine(xp)) if leads else None
    with monitor.bar if leads else nullcontext(), stop_requested() as stop:
        if leads and run.step == 0:
            monitor.measure(0, model)
        workers.wait()
        for done, losses in train_steps(model, optimizer, config, batches, run.step,
                                        workers.gradients):
            if leads:
                monitor.after_step(done, losses)
            due = done == config.steps or done % every == 0
            stopping = workers.agree(stop.is_set())
            if due or stopping:
                if leads:
                    monitor.checkpoint(done, model, optimizer.state, due)
                workers.wait()
            if stopping:
                raise KeyboardInterrupt


@contextmanager
def stop_requested():
    """An event that a signal in ENDING sets; a second raises KeyboardInterrupt(first signal)."""
    asked, signals = threading.Event(), []

    def ask(number, frame):
        signals.append(number)
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    try:
        with handling(dict.fromkeys(ENDING, ask)):
            yield asked
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*signals[:1]) from None


def finish(run, corpus):
    """Save a Run's best weights for good: the initial ones if every step was worse on dev."""
    scores = scores_on_dev(run.config, run.measured)
    if scores[0] > scores[run.step]:
        run = run._replace(model=starting_model(run.config, corpus), step=0)
    model = run.model
    if run.config.half:
        params = {name: in_16_bits(p) for name, p in model.params.items()}
        model = model._replace(params=params)
    save_run(run._replace(model=model, state={}))
    (run.folder / TRAINING).unlink()


def main(argv=None):
    """The command: train or resume, then show the result. Only the first worker shows it."""
    from .evaluation.after_training import sts_of, summary    # training itself needs none of it
    with errors_in_one_line():
        workers = launched()    # with one process its methods do nothing: skip them
    with workers.job(), errors_in_one_line():
        with workers.in_turn():
            given = parse(sys.argv[1:] if argv is None else argv)
            folder = given.get("resume")
            config = None if folder else config_of(given)
            if config:
                sts_of(config.data)                           # now, so that mistakes show early
        run = (resume(Path(folder), workers, given.get("device")) if folder
               else train(config, workers))
        if workers.rank == 0:
            print(*summary(run), sep="\n\n")


if __name__ == "__main__":
    main()
