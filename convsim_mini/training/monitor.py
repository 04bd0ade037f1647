"""How training is watched: progress bar, log.jsonl, measures on dev, figures, check of losses."""

import json
import sys
import time
from collections import defaultdict
from contextlib import nullcontext

from ..core.arrays import array_module, to_host
from ..common.cli import UserError, progress, python_m, say, user_errors
from ..common.show import new_figure, save_figure
from ..common.files import write_text
from ..common.arrays_file import RESTORE, load_arrays
from ..core.ranking import N
from .measures import scores_on_dev
from .run import LOG, MODEL, keep_as_best, read_log, save_run

LOGGED = 2_000    # losses logged in a run, each the mean over the steps since the last one
EXPLODED = 100    # a run is stopped at 100 times the loss of its own first step
CURVES = {    # title → what is drawn below it: key in log.jsonl → label
    "On dev: % of messages with the true reply among the best N of 100": {
        **{f"dev_p{n}": f"P@{n}  (at random: {n}%)" for n in N},
        "nli": "NLI, accuracy of three classes  (at random: 33%)"},
    "Loss per pair": {
        "loss": "replies, training (falls when pairs are seen again)",
        "nli_loss": "second task, training", "dev_loss": "replies, dev"}}


class Monitor:
    """Shows and records the progress of a Run from its current step.

    Records of later steps are removed from the log. dev: Model → its measures; seconds: time spent
    training, without measuring and saving
    """

    def __init__(self, run, dev):
        self.run, self.dev, self.path, steps = run, dev, run.folder / LOG, run.config.steps
        self.log_every = max(10, steps // LOGGED)
        log = read_log(self.path) if run.step else []         # at step 0 it starts over
        self.records = [record for record in log if record["step"] <= run.step]
        write_text(self.path, "".join(f"{json.dumps(record)}\n" for record in self.records))
        self.losses = defaultdict(list)                       # by task, since the last line
        self.measured = [*run.measured]
        self.seconds = self.measured[-1]["seconds"] if self.measured else 0.0
        self.bar = progress(unit=" steps", dynamic_ncols=True, smoothing=0.05, leave=True,
                            initial=run.step, total=steps)

    @property
    def best(self):
        """The step, other than step 0, that is best on dev, or None."""
        scores = scores_on_dev(self.run.config, self.measured)
        return max(filter(None, scores), key=scores.get, default=None)

    def begin(self, model):
        """Measure the Model of a new run; finish the last checkpoint of one that was killed."""
        if self.run.step == 0:
            self.measure(0, model)
        elif self.best in (None, self.run.step):
            keep_as_best(self.run.folder)
        else:
            path = self.run.folder / MODEL                    # now, so that damage shows early
            if (step := load_arrays(path)[1]["step"]) != self.best:
                raise UserError(f"{path}: is of step {step:,}, but step {self.best:,} is the best "
                                f"so far; {RESTORE}")
        self.began = time.perf_counter()

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
            first = next((record[task] for record in self.records if task in record), mean)
            most = EXPLODED * max(1, abs(first))              # the first one may be 0
            if not mean <= min(most, sys.float_info.max):     # nan is not, nor is infinity
                raise UserError(f"step {step:,}: the loss is {mean:.4g}; expected at most "
                                f"{most:.4g} (it began at {first:.4g}); earlier checkpoints are "
                                "kept; lower --optim.learning_rate and "
                                "--optim.table_learning_rate, and train again")
        if means:
            self.losses.clear()
            self.bar.set_postfix({task: f"{means[task]:.3f}" for task in means}, refresh=False)
            self._write({"step": step, **means})

    def checkpoint(self, step, model, state, due):
        """Save a Model, and measure it first if `due`. Raises UserError as `log` does."""
        self.log(step)
        self.seconds += time.perf_counter() - self.began
        if due:
            self.measure(step, model)
        save_run(self.run._replace(step=step, model=model, measured=self.measured, state=state))
        if self.best in (None, step):
            keep_as_best(self.run.folder)
        self.began = time.perf_counter()

    def measure(self, step, model):
        """Measure a Model on dev; print and record the measures, and draw them after the last."""
        record = {"step": step, "seconds": round(self.seconds, 1), **self.dev(model)}
        figures = [f"P@{n} {record[f'dev_p{n}']:4.1f}" for n in N]
        if "nli" in record:
            figures.append(f"NLI {record['nli']:4.1f}")
        self.measured.append(record)
        self._write(record)
        self.bar.write(f"step {step:6,}   {self.seconds:5.0f} s   dev {'   '.join(figures)}   "
                       f"loss {record['dev_loss']:.3f}")
        if step == self.run.config.steps:
            try:
                plot_curves(self.run.folder / "curves.png", self.records, self.best)
            except Exception as error:                        # any: training needs no picture
                say(f"could not draw the curves ({error})")

    def _write(self, record):
        self.records.append(record)
        resume = python_m("convsim_mini.train --resume", self.run.folder)
        with (user_errors(f"{self.path}: cannot be written", f"make room, then resume: {resume}"),
              open(self.path, "a", encoding="utf-8") as file):
            print(json.dumps(record), file=file)


class Unwatched:
    """What Monitor has, for the other workers: nothing is shown or recorded."""

    bar = nullcontext()
    begin = after_step = checkpoint = staticmethod(lambda *_: None)


def plot_curves(path, records, best):
    """Draw the CURVES against steps.

    records: of a log.jsonl; best: the step whose weights are kept, or None
    """
    figure, both = new_figure(columns=2)
    for axes, (title, curves) in zip(both, CURVES.items()):
        for key, label in curves.items():
            draw_curve(axes, records, key, label)
        if best is not None:
            axes.axvline(best, color="grey", linestyle=":", label=f"kept: step {best:,}")
        axes.set(title=title, xlabel="step")
        axes.legend()
    both[0].set_ylim(0)
    save_figure(figure, path)


def draw_curve(axes, records, key, label):
    """Draw what log records hold under a key against steps; nothing if no record has it."""
    points = [(record["step"], record[key]) for record in records if key in record]
    if points:
        axes.plot(*zip(*points), "-" if key in ("loss", "nli_loss") else "o-", label=label)
