"""Train a sentence encoder on conversations:  python -m convsim_mini.train

Without arguments: the DAN on chitchat-dataset, two to three minutes on two cores. A run that was
stopped goes on with --resume RUN; --task multitask --init RUN --nli DIR teaches a trained one
natural language inference beside its conversations.
"""

import itertools
import json
import math
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .backend import array_module, device_module, keep_freed_memory, machine, to_device
from .cli import UserError, errors_in_one_line
from .options import parse_config, resumed_folder
from .data.corpus import open_corpus
from .data.pairs import RULES
from .data.snli import NliBatch, encode_snli, find_snli, read_snli
from .evaluation import response, sts
from .files import write_text
from .model.initial import initial_model, initial_parameters
from .model.input_response import Model, cut_report, loss_and_gradients
from .model.layers import Dropout
from .model.nli import nli_loss_and_gradients
from .run import (
    check_corpus,
    has_checkpoint,
    load_config,
    load_run,
    load_state,
    save_checkpoint,
    save_config,
    save_vocabulary,
)
from .tables import table
from .training.monitor import EXPLODED, Diverged, Monitor
from .training.optim import SGD, Adaptive
from .training.schedule import Tasks, batches, pairs_before, rates, settled_at, steps_in

DEV_QUERIES = 5_000
LARGEST = 1e19    # of a parameter: squares of float32 overflow beyond


def train(config):
    """Train a model as the Config says; → the run's folder, the corpus.

    Dev only shows how it goes: the run's model is that of the last step, where the rate has come
    down to zero, and the presets were chosen by dev beforehand.

    Raises UserError for pair files, folders and devices that cannot be used.
    """
    corpus, tasks = prepare(config)
    model = starting_model(config, corpus)
    folder = new_folder(config)
    save_config(folder, config)
    save_vocabulary(folder, corpus)
    return run_steps(folder, config, corpus, tasks, model)


def resume(folder):
    """Go on with a run from its last checkpoint, or from the start if it has none; → as `train`.

    On the CPU the weights at the end are those of a run that was never stopped, bit by bit.
    Raises UserError where the run's files, or those it was trained on, are missing or changed.
    """
    config = load_config(folder)
    corpus, tasks = prepare(config)
    if not has_checkpoint(folder):
        save_vocabulary(folder, corpus)
        return run_steps(folder, config, corpus, tasks, starting_model(config, corpus))
    run = load_run(folder)
    check_corpus(run, corpus)
    return run_steps(folder, config, corpus, tasks, run.model, run.step, load_state(run))


def starting_model(config, corpus):
    """The Model before the first step: from the seed, or from the run that --init names.

    Raises UserError where that run has another corpus, or parameters of other shapes.
    """
    if not config.init:
        return initial_model(config, corpus)
    run = load_run(config.init)
    check_corpus(run, corpus)
    rng = np.random.Generator(np.random.Philox(config.seed))
    params = initial_parameters(config.model, run.model.params["encoder.embedding.weight"], rng, config.classifies)
    for name, p in params.items():
        found = run.model.params.get(name)
        if found is None and not name.startswith("nli.") or found is not None and found.shape != p.shape:
            raise UserError(f"--init {config.init}: {name} has shape {getattr(found, 'shape', None)}, but {p.shape} follows "
                            "from the settings; leave the model's settings to that run")
        params[name] = p if found is None else found
    return Model(params, config.model, corpus.vocabulary.size)


def prepare(config):
    """The Corpus that a Config names and its Tasks, after every check that can be made before the first step."""
    device_module(config.device)
    keep_freed_memory()
    corpus = open_corpus(config)
    print(corpus_report(corpus.report))
    if config.model.encoder == "transformer":
        print(cut_report(config.model, np.diff(corpus.train.offsets)) + "\n")
    tasks = Tasks(corpus.train, *(open_nli(config, corpus.vocabulary) if config.classifies else (None, None)))
    check(config, corpus, tasks)
    return corpus, tasks


def open_nli(config, vocabulary):
    """NliSplits of the train and dev files in config.nli. Raises UserError where one is missing or wrong."""
    files = find_snli(config.nli)
    if not {"train", "dev"} <= files.keys():
        raise UserError(f"{config.nli}: training needs snli_1.0_train and snli_1.0_dev, found {', '.join(files)}")
    found = {split: read_snli(files[split]) for split in ("train", "dev")}
    train = encode_snli(found["train"], vocabulary, config.nli_fraction, config.seed)
    print(f"SNLI: {train.pairs:,} pairs to train on ({config.nli_fraction:.0%} of the file), {len(found['dev'].labels):,} of "
          f"dev; {found['train'].dropped:,} and {found['dev'].dropped:,} without a label left out\n")
    return train, encode_snli(found["dev"], vocabulary)


def check(config, corpus, tasks):
    """Raise a UserError for what would otherwise come to light only after training."""
    dropped = ["dropped_batch_size"] if config.optim.drop_at < 1 else []
    for name in ("batch_size", *dropped):
        size = getattr(config.optim, name)
        if not 2 <= size <= corpus.train.pairs:
            raise UserError(f"--optim.{name} {size}: expected 2 to {corpus.train.pairs}, the pairs of the train split")
    for name in ("nli_batch_size", *dropped) if tasks.nli else ():
        size = getattr(config.optim, name)
        if size > tasks.nli.pairs:
            raise UserError(f"--optim.{name} {size}: expected no more than the {tasks.nli.pairs} NLI pairs to train on; lower "
                            "it or raise --nli_fraction")
    response.draw_candidates(corpus.dev, DEV_QUERIES)
    response.draw_candidates(corpus.test)
    for path in sts.find_sts(config.data).values():
        sts.read_sts(path)


def run_steps(folder, config, corpus, tasks, model, first_step=0, state=None):
    """Train a Model from `first_step` to the end, its arrays moved to the device; → folder, corpus.

    state: the optimiser's, from a checkpoint. Ctrl-C saves a checkpoint after the current step
    and raises KeyboardInterrupt; a loss that is not sound raises UserError and saves none.
    """
    xp = device_module(config.device)
    model = model._replace(params=to_device(model.params, xp))
    optimizer = {"sgd": SGD, "adaptive": Adaptive}[config.optim.optimizer](model.params)
    if state is not None:
        restore(optimizer, state, folder)
    monitor = Monitor(folder, config, corpus.dev, response.draw_candidates(corpus.dev, DEV_QUERIES), tasks.nli_dev)
    monitor.resume(first_step, machine(xp))
    try:
        loop(config, tasks, model, optimizer, monitor, first_step)
    except Diverged as error:
        raise UserError(divergence(folder, config, corpus.vocabulary, tasks, *error.args)) from None
    except KeyboardInterrupt:
        monitor.bar.write(f"stopped; go on with:  python -m convsim_mini.train --resume {folder}", file=sys.stderr)
        raise
    finally:
        monitor.bar.close()
    return folder, corpus


def loop(config, tasks, model, optimizer, monitor, first_step):
    """The training loop: forward, backward, update; now and then save and measure.

    With --minutes the number of steps is found on the way and stored in the run's config.
    """
    optim = config.optim
    timed, minutes, clock = settled_at(optim), config.minutes, []
    if minutes:
        config.steps, config.minutes = sys.maxsize, None
    else:
        monitor.expect(config.steps, pairs_before(config, config.steps), pairs_before(config, first_step))
    if first_step == 0:
        monitor.measure(0, model)
    monitor.start_clock()
    with asked_to_stop() as stop:
        for step, batch in zip(range(first_step, config.steps), batches(config, tasks, first_step)):
            dropout = Dropout(config.model.dropout, config.seed).at(step)
            if isinstance(batch, NliBatch):
                loss, grads = nli_loss_and_gradients(model, batch, dropout, optim.nli_weight)
            else:
                loss, grads = loss_and_gradients(model, batch, dropout)
            pairs = len(batch.sentences.lengths) // 2
            optimizer.step(model.params, grads, *rates(optim, step, config.steps, pairs))
            done = step + 1
            monitor.after_step(done, batch, loss)
            if minutes and done in (timed // 2, timed):
                float(loss)                                   # a device works ahead: wait for it
                clock.append(time.perf_counter())
            if minutes and done == timed:
                config.steps = steps_in(minutes, (clock[1] - clock[0]) / (timed - timed // 2), optim)
                save_config(monitor.folder, config)
                monitor.expect(config.steps, pairs_before(config, config.steps), pairs_before(config, done))
            due = done % -(-config.steps // config.evaluations) == 0 or done == config.steps
            if stop.is_set() and config.steps < sys.maxsize or due:    # maxsize: the speed is not yet known
                monitor.log(done)
                monitor.stop_clock()
                save_checkpoint(monitor.folder, done, sound(model.params, done), optimizer.state)
            if due:
                monitor.measure(done, model)
                monitor.start_clock()
            if stop.is_set():
                raise KeyboardInterrupt
            if done == config.steps:
                break


@contextmanager
def asked_to_stop():
    """An event that Ctrl-C sets instead of interrupting; a second Ctrl-C interrupts at once."""
    asked = threading.Event()

    def ask(number, frame):
        asked.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def restore(optimizer, state, folder):
    """Copy saved arrays into an optimiser's own. Raises UserError where they do not fit."""
    for name in optimizer.state.keys() | state.keys():
        own, saved = optimizer.state.get(name), state.get(name)
        if own is None or saved is None or own.shape != saved.shape:
            raise UserError(f"{folder}: its resume-*.safetensors does not fit its config.json at {name}; restore the "
                            "files of one run")
        own[...] = array_module(own).asarray(saved)


def sound(params, step):
    """The parameters as they are; raises Diverged if a number is nan, or so large that its square overflows."""
    for p in params.values():
        if not (p.min() > -LARGEST and p.max() < LARGEST):    # nan is neither
            raise Diverged(step, math.nan)
    return params


def divergence(folder, config, vocabulary, tasks, step, loss):
    """Save the batch of the step at which the loss went wrong, as words; → what to tell the user."""
    batch = next(batches(config, tasks, step - 1)).sentences
    texts = [" ".join(map(vocabulary.token, batch.part(b, b + 1).ids)) for b in range(len(batch.lengths))]
    path = Path(folder, f"diverged-{step:06d}.jsonl")
    pairs = zip(texts[:len(texts) // 2], texts[len(texts) // 2:])
    write_text(path, "".join(json.dumps({"input": text, "response": reply}) + "\n" for text, reply in pairs))
    return (f"step {step:,}: the loss is {loss:.4g}, expected less than {EXPLODED} times that of picking at random; the "
            f"step's batch is in {path} and the checkpoints before it are kept; train again with a lower --optim.rate "
            "and --optim.table_rate")


def new_folder(config):
    """Make the run's folder. Raises UserError if it is there already, not empty, or cannot be made.

    A run killed before its config.json was written left a folder that is as good as empty.
    """
    names = [config.run] if config.run else (
        f"runs/{config.preset}{'' if k == 1 else f'-{k}'}" for k in itertools.count(1))
    for name in names:
        try:
            Path(name).mkdir(parents=True, exist_ok=True)
            if any(path.suffix != ".tmp" for path in Path(name).iterdir()):
                continue
            config.run = name
            return Path(name)
        except OSError as error:
            raise UserError(f"{name}: cannot be made ({error.strerror}); choose another folder with --run") from None
    raise UserError(f"{config.run}: exists already and is left as it is; choose another folder with --run")


def corpus_report(report):
    """What became of the pairs that were read, as a table."""
    kept = report["kept"]
    rows = [["pairs read", f"{report['read']:,}"],
            *([f"removed, {side}: {text}", f"{report['removed'].get(f'{side}: {rule}', 0):,}"]
              for rule, text in RULES.items() for side in ("input", "response")),
            *([f"kept for {split}", f"{number:,}"] for split, number in kept.items())]
    if report["malformed"]:
        rows.insert(1, ["malformed", f"{report['malformed']:,}"])
    return table(["the corpus, after the paper's filters", ""], rows) + "\n"


def summary(folder, corpus):
    """What the run has come to, measured on what was saved: test P@N, STS, and what to try next."""
    run = load_run(folder)
    models = {"trained": run.model, "the same, untrained": initial_model(run.config, corpus)}
    parts = [response.report(response.compare(models, corpus))]
    files = sts.find_sts(run.config.data)
    files.pop("test", None)                                   # that is for evaluation.sts
    split, path = (list(files.items()) or [("own set", sts.OWN)])[-1]
    pairs = sts.read_sts(path)
    similarity = {name: sts.model_similarity(model, run.vocabulary, pairs) for name, model in models.items()}
    baselines = sts.baseline_similarities(run.vocabulary, pairs)
    parts += [sts.report(split, pairs, {**similarity, **baselines}), sts.extremes(similarity["trained"], pairs)]
    of_nli = f"  python -m convsim_mini.evaluation.nli {folder}\n" if run.config.classifies else ""
    parts.append(f"The run is in {folder}: look at {folder}/p_at_n.png and {folder}/loss.png. Try next:\n"
                 f"  python -m convsim_mini.evaluation.sts {folder}\n"
                 f"  python -m convsim_mini.evaluation.response {folder}\n{of_nli}"
                 f"  python -m convsim_mini.train --config {folder}/config.json --run {folder}-again   # the same again")
    return "\n\n".join(parts)


def main(argv=None):
    """The command: train or resume, then show what came of it."""
    argv = sys.argv[1:] if argv is None else argv
    folder = resumed_folder(argv)
    print(summary(*(resume(folder) if folder else train(parse_config(argv)))))


if __name__ == "__main__":
    with errors_in_one_line():
        main()
