"""Train a sentence encoder on conversations:  python -m convsim_mini.train

Without arguments: the DAN on chitchat-dataset, two to three minutes on two cores.
"""

import itertools
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from .backend import device_module, keep_freed_memory, to_device
from .checkpoint import load_run, save_checkpoint, save_config, save_vocabulary
from .cli import UserError, errors_in_one_line
from .config import parse_config
from .corpus import batch_order, open_corpus
from .evaluation import response, sts
from .evaluation.plots import plot_loss, plot_precision
from .evaluation.tables import table
from .model import initial_model, loss_and_gradients
from .optim import SGD, Adaptive
from .pairs import RULES
from .text import drop_words

DEV_QUERIES = 5_000
LOGGED = 2_000    # losses logged in a run, each the mean over the steps since the last
SETTLED = 50    # steps, at least, before the rate decays: --minutes learns the speed from them


def rates(optim, step, steps):
    """The learning rates of one step, counted from 0: (dense, table).

    They rise for `warmup` steps, hold until `settled_at`, and fall linearly to zero at `steps`;
    from `drop_at` on dropped_rate takes the place of rate. With the summed loss, whose gradient
    is batch_size times the mean's, the rate is so many times larger.
    """
    factor = min(1, (step + 1) / optim.warmup) if optim.warmup else 1
    if optim.decay == "linear" and step >= settled_at(optim):
        factor *= (steps - step) / (steps - settled_at(optim))
    if step >= optim.drop_at * steps:
        factor *= optim.dropped_rate / optim.rate
    if optim.loss == "sum":
        factor *= batch_size(optim, step, steps)
    return factor * optim.rate, factor * optim.table_rate


def batch_size(optim, step, steps):
    """Pairs in the batch of one step."""
    return optim.dropped_batch_size if step >= optim.drop_at * steps else optim.batch_size


def settled_at(optim):
    """The step from which the learning rate may depend on the number of steps."""
    return max(optim.warmup, SETTLED)


def batches(config, split):
    """Yield the Batch of every step, for ever: a function of the seed and the step's number.

    config.steps is read anew each time, since --minutes sets it on the way.
    """
    optim, order, size = config.optim, None, None
    for step in itertools.count():
        if batch_size(optim, step, config.steps) != size:
            size = batch_size(optim, step, config.steps)
            order = batch_order(split.pairs, size, config.seed)
        batch = split.batch(next(order), optim.mask_false_negatives)
        if optim.word_dropout:
            # the upper half of the keys: batch_order uses the lower
            rng = np.random.Generator(np.random.Philox(key=[config.seed, 2**63 + step]))
            batch = batch._replace(sentences=drop_words(batch.sentences, optim.word_dropout, rng))
        yield batch


class Monitor:
    """Shows and records how training goes: progress bar, log.jsonl, P@N on dev, two figures."""

    def __init__(self, folder, config, dev, test):
        """test: the pairs of dev and their candidates, from response.draw_candidates."""
        self.folder, self.config, self.dev, self.test = folder, config, dev, test
        self.losses, self.steps, self.measured, self.log_every = [], [], [], 10
        self.seconds, self.resumed_at = 0.0, time.perf_counter()
        self.bar = tqdm(unit=" pairs", unit_scale=True, dynamic_ncols=True, smoothing=0.05)

    def start_clock(self):
        """Count training time from here on; measuring and saving do not count."""
        self.resumed_at = time.perf_counter()

    def stop_clock(self):
        """Stop counting training time."""
        self.seconds += time.perf_counter() - self.resumed_at

    def after_step(self, step, pairs, loss):
        """Take note of a step's loss, a 0-d array of either device; log a mean now and then."""
        self.losses.append(loss)
        if len(self.losses) >= self.log_every:
            mean = float(sum(self.losses)) / len(self.losses)      # the device is waited for only here
            self.losses = []
            self.bar.set_postfix(loss=f"{mean:.3f}", refresh=False)
            self._write(self.steps, {"step": step, "loss": mean})
        self.bar.update(pairs)

    def measure(self, step, model):
        """P@N on dev: printed, recorded, drawn."""
        ranks = response.model_ranks(model, self.dev, *self.test)
        record = {"step": step, "seconds": round(self.seconds, 1),
                  "dev": {n: round(response.precision(ranks, n)[0], 2) for n in response.N}}
        self._write(self.measured, record)
        figures = "   ".join(f"P@{n} {value:4.1f}" for n, value in record["dev"].items())
        self.bar.write(f"step {step:6,}   {self.seconds:5.0f} s   dev {figures}")
        plot_precision(self.folder / "p_at_n.png", self.measured)
        if self.steps:
            plot_loss(self.folder / "loss.png", self.steps, self.config.optim.batch_size)

    def expect(self, steps):
        """Tell the progress bar how many steps there are."""
        self.log_every = max(10, steps // LOGGED)
        optim = self.config.optim
        late = steps - min(steps, math.ceil(optim.drop_at * steps))
        self.bar.total = (steps - late) * optim.batch_size + late * optim.dropped_batch_size
        self.bar.refresh()

    def _write(self, records, record):
        records.append(record)
        with open(self.folder / "log.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")


def train(config):
    """Train a model as the Config says; → the run's folder, the corpus.

    Dev only shows how it goes: the run's model is that of the last step, where the rate has come
    down to zero, and the presets were chosen by dev beforehand.

    Raises UserError for pair files, folders and devices that cannot be used.
    """
    xp = device_module(config.device)
    keep_freed_memory()
    corpus = open_corpus(config)
    print(corpus_report(corpus.report))
    check(config, corpus)
    test = response.draw_candidates(corpus.dev, DEV_QUERIES)
    folder = new_folder(config)
    save_vocabulary(folder, corpus.vocabulary)
    save_config(folder, config)
    initial = initial_model(config, corpus)
    model = initial._replace(params=to_device(initial.params, xp))
    optimizer = {"sgd": SGD, "adaptive": Adaptive}[config.optim.optimizer](model.params)
    run_steps(config, corpus, model, optimizer, Monitor(folder, config, corpus.dev, test))
    return folder, corpus


def check(config, corpus):
    """Raise a UserError for what would otherwise come to light only after training."""
    sizes = {"batch_size": config.optim.batch_size}
    if config.optim.drop_at < 1:
        sizes["dropped_batch_size"] = config.optim.dropped_batch_size
    for name, size in sizes.items():
        if not 2 <= size <= corpus.train.pairs:
            raise UserError(f"--optim.{name} {size}: expected 2 to {corpus.train.pairs}, the pairs of the train split")
    response.draw_candidates(corpus.test)
    for path in sts.find_sts(config.data).values():
        sts.read_sts(path)


def run_steps(config, corpus, model, optimizer, monitor):
    """The training loop: forward, backward, update; now and then measure and save.

    With --minutes the number of steps is found on the way and stored in the run's config.
    """
    xp, optim = device_module(config.device), config.optim
    timed, minutes, clock = settled_at(optim), config.minutes, []
    if minutes:
        config.steps, config.minutes = sys.maxsize, None
    else:
        monitor.expect(config.steps)
    monitor.measure(0, model)
    monitor.start_clock()
    for step, batch in enumerate(batches(config, corpus.train)):
        loss, grads = loss_and_gradients(model, to_device(batch, xp))
        optimizer.step(model.params, grads, *rates(optim, step, config.steps))
        done = step + 1
        monitor.after_step(done, len(batch.sentences.lengths) // 2, loss)
        if minutes and done in (timed // 2, timed):
            float(loss)                                       # a device works ahead: wait for it
            clock.append(time.perf_counter())
        if minutes and done == timed:
            config.steps = steps_in(minutes, (clock[1] - clock[0]) / (timed - timed // 2), optim)
            save_config(monitor.folder, config)
            monitor.expect(config.steps)
        if done % -(-config.steps // config.evaluations) == 0 or done == config.steps:
            monitor.stop_clock()
            monitor.measure(done, model)
            save_checkpoint(monitor.folder, done, model.params, optimizer.state)
            monitor.start_clock()
        if done == config.steps:
            break
    monitor.bar.close()


def steps_in(minutes, seconds_per_step, optim):
    """The number of steps that take so many minutes, judged by steps of the first batch size."""
    growth = optim.dropped_batch_size / optim.batch_size
    mean_seconds = seconds_per_step * (optim.drop_at + (1 - optim.drop_at) * growth)
    fewest = math.ceil((settled_at(optim) + 1) / (optim.drop_at or 1))        # no step so far may be a late one
    return max(fewest, round(60 * minutes / mean_seconds))


def new_folder(config):
    """Make the run's folder. Raises UserError if it is there already or cannot be made."""
    names = [config.run] if config.run else (
        f"runs/{config.preset}{'' if k == 1 else f'-{k}'}" for k in itertools.count(1))
    for name in names:
        try:
            Path(name).mkdir(parents=True)
            config.run = name
            return Path(name)
        except FileExistsError:
            continue
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
    parts.append(f"The run is in {folder}: look at {folder}/p_at_n.png and {folder}/loss.png. Try next:\n"
                 f"  python -m convsim_mini.evaluation.sts {folder}\n"
                 f"  python -m convsim_mini.evaluation.response {folder}\n"
                 f"  python -m convsim_mini.train --config {folder}/config.json --run {folder}-again   # the same again")
    return "\n\n".join(parts)


def main(argv=None):
    """The command: train, then show what came of it."""
    config = parse_config(sys.argv[1:] if argv is None else argv)
    print(summary(*train(config)))


if __name__ == "__main__":
    with errors_in_one_line():
        main()
