"""How training is watched: progress bar, log.jsonl, measures on dev, figures, check of losses."""

import json
import sys
import time
from collections import defaultdict

from ..core.arrays import array_module, to_host
from ..common.cli import UserError, progress, python_m, user_errors
from ..common.show import new_figure, save_figure
from ..common.files import write_text
from ..core.ranking import N
from .dev import scores_on_dev
from .run import LOG, keep_as_best, read_log, save_run

LOGGED = 2_000    # losses logged in a run, each the mean over the steps since the last one
REDRAWN = 30      # seconds of training between two pictures
EXPLODED = 100    # a run is stopped at 100 times the loss of its own first step


class Monitor:
    """Shows and records the progress of a Run from its current step.

    Records of later steps are removed from the log. dev: Model → its measures; machine: the name of
    the hardware (see fast/devices.py); seconds: time spent training, without measuring and saving
    """

    def __init__(self, run, dev, machine="unknown"):
        self.run, self.dev, self.folder, self.config = run, dev, run.folder, run.config
        self.log_every = max(10, self.config.steps // LOGGED)
        self.path = self.folder / LOG
        self.resume = python_m("convsim_mini.train --resume", self.folder)
        log = read_log(self.path) if run.step else []       # at step 0 it starts over
        log = [record for record in log if record["step"] <= run.step]
        write_text(self.path, "".join(f"{json.dumps(record)}\n" for record in log))
        self.losses = defaultdict(list)                       # by task, since the last line
        self.steps = [record for record in log if {"loss", "nli_loss"} & record.keys()]
        self.first = {}                                       # each loss's first value in the log
        for record in self.steps:
            self.first = record | self.first
        self.measured = [*run.measured]
        self.seconds = self.drawn = self.measured[-1]["seconds"] if self.measured else 0.0
        self._write([], {"step": run.step, "machine": machine})
        self.bar = progress(unit=" steps", dynamic_ncols=True, smoothing=0.05, leave=True,
                            initial=run.step, total=self.config.steps)
        self.began = time.perf_counter()

    @property
    def best(self):
        """The step, other than step 0, that is best on dev, or None."""
        scores = scores_on_dev(self.config, self.measured)
        return max(filter(None, scores), key=scores.get, default=None)

    def after_step(self, step, losses):
        """Keep a step's losses, 0-d arrays by name; log at step 1 and every `log_every` steps."""
        for task, loss in losses.items():
            self.losses[task].append(loss)
        if step == 1 or step % self.log_every == 0:
            self.log(step)
        self.bar.update(step - self.bar.n)

    def log(self, step):
        """Log each task's mean loss since the last call. Raises UserError if a loss exploded."""
        means = {}
        for task, losses in sorted(self.losses.items()):
            values = to_host(array_module(losses[0]).stack(losses)).tolist()           # one wait
            means[task] = mean = sum(values) / len(values)
            most = EXPLODED * max(1, abs(self.first.setdefault(task, mean)))    # it may be 0
            if not mean <= min(most, sys.float_info.max):     # nan is not, nor is infinity
                raise UserError(f"step {step:,}: the loss is {mean:.4g}; expected at most "
                                f"{most:.4g} (it began at {self.first[task]:.4g}); earlier "
                                "checkpoints are kept; lower --optim.learning_rate and "
                                "--optim.table_learning_rate, and train again")
        if means:
            self.losses.clear()
            self.bar.set_postfix({task: f"{means[task]:.3f}" for task in means}, refresh=False)
            self._write(self.steps, {"step": step, **means})

    def checkpoint(self, step, model, state, due):
        """Save a Model, and measure it first if `due`. Raises UserError as `log` does."""
        self.log(step)
        self.seconds += time.perf_counter() - self.began
        if due:
            self.measure(step, model)
        save_run(self.run._replace(step=step, model=model, measured=self.measured, state=state))
        if self.best in (None, step):
            keep_as_best(self.folder)
        self.began = time.perf_counter()

    def measure(self, step, model):
        """Measure a Model on dev; print and record the measures, and draw them now and then."""
        record = {"step": step, "seconds": round(self.seconds, 1), **self.dev(model)}
        figures = [f"P@{n} {record[f'dev_p{n}']:4.1f}" for n in N]
        if "nli" in record:
            figures.append(f"NLI {record['nli']:4.1f}")
        self._write(self.measured, record)
        self.bar.write(f"step {step:6,}   {self.seconds:5.0f} s   dev {'   '.join(figures)}   "
                       f"loss {record['dev_loss']:.3f}")
        if step == self.config.steps or self.seconds - self.drawn >= REDRAWN:
            self.drawn = self.seconds
            try:
                plot_curves(self.folder / "curves.png", self.steps, self.measured, self.best)
            except Exception as error:                        # any: training needs no picture
                self.bar.write(f"could not draw the curves ({error}); training continues",
                               sys.stderr)
        self.began = time.perf_counter()

    def _write(self, records, record):
        records.append(record)
        advice = f"make room, then resume: {self.resume}"
        with (user_errors(f"{self.path}: cannot be written", advice),
              open(self.path, "a", encoding="utf-8") as file):
            print(json.dumps(record), file=file)


def plot_curves(path, losses, measured, best):
    """Plot P@N and NLI's accuracy on dev, and the losses, against steps.

    losses: records with "loss" or "nli_loss" in training; measured: records of measures on dev;
    best: the step whose weights are kept, or None
    """
    figure, (right, wrong) = new_figure(columns=2)
    for n in N:
        _curve(right, measured, f"dev_p{n}", f"P@{n}  (at random: {n}%)")
    _curve(right, measured, "nli", "NLI, accuracy of three classes  (at random: 33%)", "s--")
    right.set_ylim(0)
    right.set(title="True reply among the best N of 100, on dev", ylabel="messages (%)")
    _curve(wrong, losses, "loss", "replies, training (falls when pairs are seen again)", "-")
    _curve(wrong, losses, "nli_loss", "second task, training", "-")
    _curve(wrong, measured, "dev_loss", "replies, dev")
    wrong.set(title="Loss in training and on dev", ylabel="loss per pair")
    for axes in (right, wrong):
        if best is not None:
            axes.axvline(best, color="grey", linestyle=":", label=f"kept: step {best:,}")
        axes.set_xlabel("step")
        axes.legend()
    save_figure(figure, path)


def _curve(axes, records, key, label, style="o-"):
    """Plot the values of a key against steps; records without that key are skipped."""
    points = [(record["step"], record[key]) for record in records if key in record]
    if points:
        axes.plot(*zip(*points), style, linewidth=1, label=label)
