"""Train a sentence encoder on conversations:  python -m convsim_mini.train

Without arguments, it trains the DAN on chitchat-dataset in one to three minutes on two cores.
--resume RUN continues a run that was stopped. With --task multitask --init RUN --nli DIR, it also
learns inference. training/workers.py says how to start several workers.
"""

if not __package__:
    raise SystemExit("run it by name, in the repository: python -m convsim_mini.train")

import dataclasses
import json
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path

from .common.files import write_text
from .common.cli import ENDING, UserError, errors_in_one_line, handling, path_of, user_errors
from .data.prepare import corpus_report, open_corpus
from .core.arrays import array_module, to_device
from .core.loop import train_steps
from .core.optim import OPTIMIZERS
from .data.layouts import Reading
from .data.pairs import write_pairs
from .fast.devices import device_module
from .fast.host import use_all_cores
from .training.measures import DEV_QUERIES, drawn, measuring_dev, scores_on_dev
from .training.start import initial_model
from .training.monitor import Monitor, Unwatched
from .training.options import config_of, parse
from .training.run import (
    PAIRS, TRAINING, Run, check_corpus, describe, finished, in_16_bits, load_run, new_run_folder,
    newest, save_run, training_in)
from .training.tasks import batches_of_tasks, fitted, open_tasks
from .training.workers import SINGLE_WORKER, launched


def train(config, workers=SINGLE_WORKER, pairs=None):
    """Train a model as the Config says; → the Run, with its best weights. Raises UserError.

    pairs: what `fit` was given; it is copied into the run's folder first
    """
    with new_run_folder(config) if workers.rank == 0 else nullcontext("") as folder:
        if pairs is not None:
            with user_errors(f"{folder}: cannot be written", "make room or choose another run="):
                write_pairs(pairs, folder / PAIRS, Reading(tuple(config.columns), config.encoding))
            config = dataclasses.replace(config, pairs=[str(folder / PAIRS)])
        config = dataclasses.replace(config, run=str(folder))
        vocabulary = describe(config.init).vocabulary if config.init else None
        return run_to_the_end(Run(Path(folder, TRAINING), config, vocabulary, None), workers)


def resume(folder, workers=SINGLE_WORKER, device=None):
    """Continue a run from its last checkpoint, perhaps on another device; → the Run, as `train`.

    On the CPU and with as many workers as before, the final weights are bit for bit those of a run
    that was never stopped. A finished run is not changed. Raises UserError if the run's files, its
    pairs or its NLI data are missing or changed, or if another process is training in its folder.
    """
    folder = path_of(folder)
    folder = folder.parent if folder.is_file() else folder    # given one of its files
    with workers.in_turn():
        run = describe(newest(folder))    # before the lock, which would make a mistyped folder
    with training_in(folder) if workers.rank == 0 else nullcontext():
        config = dataclasses.replace(run.config, device=device or run.config.device)
        return run_to_the_end(run._replace(config=config), workers)


def run_to_the_end(run, workers):
    """Train a Run, new or as it was saved, to its end; → that Run with its best weights."""
    with workers.in_turn():
        config, corpus, tasks = prepare(run.config, run.vocabulary, workers)
    run = run._replace(config=config)
    if run.corpus_checksum:
        check_corpus(run, corpus)
        if run.nli_checksum != tasks.nli_checksum:
            raise UserError(f"{config.nli}: these NLI data are not those that {run.folder} was "
                            "trained on; put the old files back or train again")
        if workers.broadcast(finished(run.folder)):
            return load_run(run.folder, config.device)
    if workers.rank == 0:
        run = load_run(run.path)._replace(config=config) if run.step else begun(run, corpus, tasks)
    initial, run = run.initial, workers.broadcast(run._replace(initial=None))
    run_steps(run, tasks, measuring_dev(config, corpus, tasks), workers)
    if workers.rank:
        return run
    run.model.params.clear()                                  # they are read again
    finish(load_run(run.folder), corpus)
    return load_run(run.folder, config.device)._replace(initial=initial)


def begun(run, corpus, tasks):
    """A new Run with its model before the first step, saved, so that it can be resumed."""
    run = run._replace(vocabulary=corpus.vocabulary, corpus_checksum=corpus.checksum,
                       nli_checksum=tasks.nli_checksum)
    model = starting_model(run.config, corpus)
    save_run(run)
    settings = json.dumps(dataclasses.asdict(run.config), indent=2)
    write_text(run.folder / "config.json", f"{settings}\n")    # for people, and --config
    copy = {name: p.copy() for name, p in model.params.items()}
    return run._replace(model=model, initial=model._replace(params=copy))


def prepare(config, vocabulary=None, workers=SINGLE_WORKER):
    """Make every check that needs no training; → the completed Config, the Corpus and its Tasks.

    Raises UserError.
    """
    device_module(config.device, config.precision, workers.gpu)
    corpus = open_corpus(config, vocabulary)
    use_all_cores()                                        # from here on, freed memory is kept
    print(corpus_report(corpus.report))
    tasks = open_tasks(config, corpus)
    config = fitted(config, tasks, workers.size)
    drawn(corpus.test, DEV_QUERIES)                           # now, so that mistakes show early
    return config, corpus, tasks


def starting_model(config, corpus):
    """The Model before the first step, from the seed or --init's run. Raises UserError."""
    trained = load_run(config.init).model if config.init else None
    return initial_model(config, corpus, trained)


def run_steps(run, tasks, dev, workers=SINGLE_WORKER):
    """Train a Run from its current step to its last; measure and save it `evaluations` times.

    Its parameters change in place if they are on the device already. Ctrl-C, SIGTERM and SIGHUP
    save a checkpoint after the current step and raise KeyboardInterrupt. A loss that is nan or far
    too large raises UserError, and no checkpoint is saved. With several workers, only the first
    one measures, shows progress and saves. dev: a function, Model → its measures on dev
    """
    config = run.config
    xp = device_module(config.device, config.precision, workers.gpu)
    model = run.model._replace(params=to_device(run.model.params, xp))
    optimizer = optimizer_of(run, model)
    batches = islice(batches_of_tasks(config, tasks, run.step), config.steps - run.step)
    every = -(-config.steps // config.evaluations)
    monitor = Unwatched if workers.rank else Monitor(run, dev)
    with monitor.bar, stop_requested() as signals:
        monitor.begin(model)
        workers.wait()
        for done, losses in train_steps(model, optimizer, config, batches, run.step,
                                        workers.gradients):
            monitor.after_step(done, losses)
            due = done == config.steps or done % every == 0
            stopping = workers.agree(bool(signals))
            if due or stopping:
                monitor.checkpoint(done, model, optimizer.state, due)
                workers.wait()
            if stopping:
                break
        if workers.agree(bool(signals)):                      # perhaps during the last checkpoint
            raise KeyboardInterrupt(*signals[:1])


def optimizer_of(run, model):
    """The optimiser of a Model, in the state that was saved with the Run. Raises UserError."""
    optimizer = OPTIMIZERS[run.config.optim.optimizer](model.params)
    if run.step and optimizer.state and not run.state:
        raise UserError(f"{run.path}: lacks the optimiser's state, as a copy of a model does; "
                        "restore it, or train on from the model: --init")
    for name, saved in run.state.items():
        own = optimizer.state[name]
        own[...] = array_module(own).asarray(saved)
    return optimizer


@contextmanager
def stop_requested():
    """A list of the signals in ENDING that came; the second raises KeyboardInterrupt(the first)."""
    signals = []

    def ask(number, frame):
        signals.append(number)
        if len(signals) > 1:
            raise KeyboardInterrupt(signals[0])

    with handling(dict.fromkeys(ENDING, ask)):
        yield signals


def finish(run, corpus):
    """Save a Run's best weights for good: the initial ones if every step was worse on dev."""
    scores = scores_on_dev(run.config, run.measured)
    if scores[0] > scores[run.step]:
        run = run._replace(model=starting_model(run.config, corpus), step=0)
    model = run.model
    if run.config.half:
        params = {name: in_16_bits(p) for name, p in model.params.items()}
        model = model._replace(params=params)
    measured = describe(run.folder / TRAINING).measured
    save_run(run._replace(model=model, state={}, measured=measured))
    (run.folder / TRAINING).unlink()


def main(argv=None):
    """The command: train or resume, then show the result. Only the first worker shows it."""
    from .evaluation.after_training import sts_of, summary    # training itself needs none of it
    with errors_in_one_line():
        workers = launched()    # with one process its methods do nothing: skip them
    with workers.job(), errors_in_one_line():
        with workers.in_turn():
            given = parse(argv)
            config = None if "resume" in given else config_of(given)
            if config:
                sts_of(config.data)                         # now, so that mistakes show early
        run = (train(config, workers) if config
               else resume(given["resume"], workers, given.get("device")))
        if workers.rank == 0:
            print(*summary(run), sep="\n\n")


if __name__ == "__main__":
    main()
