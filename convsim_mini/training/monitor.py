"""How training is watched: progress bar, log.jsonl, measures on dev, figures, check of losses."""

import json
import math
import sys
import time
from collections import defaultdict

from ..core.arrays import array_module, to_host
from ..common.cli import progress, python_m, user_errors
from ..common.figures import plot_loss, plot_precision, precisions
from ..common.files import write_text
from ..core.model import TASKS
from .run import LOG, keep_as_model, read_log, save_run
from .tasks import pairs_before

LOGGED = 2_000    # losses logged in a run, each the mean over the steps since the last one
EXPLODED = 100    # a run is stopped at 100 times the loss of picking at random
LARGEST = 1e19    # the largest parameter: its square is still a float32


class Monitor:
    """Shows and records how the training of a Job goes from a Start on.

    What the log holds from later steps is removed. machine: the name of what computes, see
    fast/devices.py; seconds: the time spent in training, without measuring and saving
    """

    def __init__(self, job, start, machine="unknown"):
        self.job, self.folder, self.config = job, job.folder, job.config
        config, step = job.config, start.step
        self.log_every = max(10, config.steps // LOGGED)
        self.choices = choices_of(config)
        self.most = {task: EXPLODED * math.log(number) for task, number in self.choices.items()}
        self.path = self.folder / LOG
        self.resume = python_m(f"convsim_mini.train --resume {self.folder}")
        records = []    # a run without a checkpoint starts anew, and so does its log
        if step:
            records = [record for record in read_log(self.path) if record["step"] <= step]
        write_text(self.path, "".join(map(line_of, records)))
        self.losses = []
        self.steps = [record for record in records if {"loss", "nli_loss"} & record.keys()]
        self.measured = [*start.measured]
        self.seconds = self.measured[-1]["seconds"] if self.measured else 0.0
        machines = [record["machine"] for record in records if "machine" in record]
        if machines[-1:] != [machine]:
            self._write([], {"step": step, "machine": machine})
        self.bar = progress(unit=" pairs", unit_scale=True, dynamic_ncols=True, smoothing=0.05,
                            leave=True, total=pairs_before(config, config.steps))
        self.bar.update(pairs_before(config, step))
        self.began = time.perf_counter()

    @property
    def best(self):
        """The step after 0 that is best on dev, by P@1, NLI's accuracy or their sum; or None."""
        scores = {}
        for record in self.measured:
            of_tasks = {"replies": record["dev_p1"], "classes": record.get("nli", 0)}
            scores[record["step"]] = sum(of_tasks.get(task, 0) for task in self.config.taught)
        scores.pop(0, None)
        return max(scores, key=scores.get, default=None)

    def after_step(self, step, losses):
        """Keep a step's losses, 0-d arrays by name; log after every `log_every` steps."""
        self.losses.append(losses)
        if len(self.losses) >= self.log_every:
            self.log(step)
        self.bar.update(pairs_before(self.config, step) - self.bar.n)

    def log(self, step):
        """Log the mean of each task's losses since the last time. Raises Diverged if one is bad."""
        of_steps = [loss for losses in self.losses for loss in losses.values()]
        if not of_steps:
            return
        values = iter(to_host(array_module(of_steps[0]).stack(of_steps)).tolist())    # one wait
        of_tasks = defaultdict(list)
        for at, losses in enumerate(self.losses, start=step - len(self.losses) + 1):
            for task in losses:
                of_tasks[task].append(loss := next(values))
                if not loss < self.most[task]:                # nan is not
                    raise Diverged(at, loss)
        self.losses = []
        means = {task: sum(losses) / len(losses) for task, losses in sorted(of_tasks.items())}
        self.bar.set_postfix({task: f"{means[task]:.3f}" for task in means}, refresh=False)
        self._write(self.steps, {"step": step, **means})

    def checkpoint(self, step, model, state, measured):
        """Measure, if `measured`, and save. Raises Diverged if a loss or a parameter is bad."""
        self.log(step)
        self.seconds += time.perf_counter() - self.began
        for p in model.params.values():
            if not (p.min() > -LARGEST and p.max() < LARGEST):            # nan is neither
                raise Diverged(step, math.nan)
        if measured:
            self.measure(step, model)
        self.save(step, model, state)
        self.began = time.perf_counter()

    def save(self, step, model, state):
        """Save the newest weights, and keep them as the run's model if they are the best so far."""
        save_run(self.job.run(step, model, self.measured, state))
        if self.best in (None, step):
            keep_as_model(self.folder)

    def measure(self, step, model):
        """Measure a Model on dev; print, record and draw the measures."""
        record = {"step": step, "seconds": round(self.seconds, 1), **self.job.dev(model)}
        figures = [f"P@{n} {value:4.1f}" for n, value in precisions(record).items()]
        if "nli" in record:
            figures.append(f"NLI {record['nli']:4.1f}")
        self._write(self.measured, record)
        self.bar.write(f"step {step:6,}   {self.seconds:5.0f} s   dev {'   '.join(figures)}   "
                       f"loss {record['dev_loss']:.3f}")
        self.draw(plot_precision, "p_at_n.png", self.measured, self.best)
        if self.steps:
            self.draw(plot_loss, "loss.png", self.steps, self.measured, self.choices, self.best)
        self.began = time.perf_counter()

    def draw(self, plot, name, *given):
        """Draw a figure of the run, or say in a line why it cannot be drawn."""
        try:
            plot(self.folder / name, *given)
        except Exception as error:                            # any: training needs no picture
            reason = " ".join(str(error).splitlines())
            self.bar.write(f"{name}: is not drawn, training goes on ({reason})", file=sys.stderr)

    def stopped(self):
        """Say how to go on."""
        self.bar.write(f"stopped; go on with:  {self.resume}", file=sys.stderr)

    def close(self):
        """Take the progress bar away."""
        self.bar.close()

    def _write(self, records, record):
        records.append(record)
        advice = f"make room, then go on: {self.resume}"
        with (user_errors(f"{self.path}: cannot be written", advice),
              open(self.path, "a", encoding="utf-8", newline="\n") as log):
            log.write(line_of(record))


class Silent:
    """The Monitor of all workers but the first. It shows and records nothing."""

    def _nothing(self, *arguments):
        pass

    after_step = checkpoint = measure = stopped = close = _nothing


def line_of(record):
    """A record as a line of the log."""
    return json.dumps(record) + "\n"


def choices_of(config):
    """Name of a Config's loss → number of answers that it picks from."""
    return {task.loss: task.classes or getattr(config.optim, task.batch_size)
            for task in map(TASKS.get, config.taught)}


class Diverged(Exception):
    """A loss or a parameter is nan or far too large: Diverged(step, loss)."""
