"""How training is watched: progress bar, log.jsonl, measures on dev, figures, and an eye on the loss."""

import json
import math
import time

from tqdm import tqdm

from ..cli import UserError
from ..data.snli import LABELS, NliBatch
from ..evaluation import response
from ..evaluation.plots import plot_accuracy, plot_loss, plot_precision
from ..files import write_text
from ..model.nli import classify
from ..run import read_log

LOGGED = 2_000    # losses logged in a run, each the mean over the steps since the last
EXPLODED = 100    # times the loss of picking at random is where a run is stopped


class Monitor:
    """Shows and records how training goes: progress bar, log.jsonl, P@N and NLI accuracy on dev, figures."""

    def __init__(self, folder, config, dev, test, nli_dev=None):
        """test: the pairs of dev and their candidates, from response.draw_candidates; nli_dev: NliSplit."""
        self.folder, self.config, self.dev, self.test, self.nli_dev = folder, config, dev, test, nli_dev
        self.losses, self.steps, self.measured, self.log_every = [], [], [], 10
        self.most = {"loss": EXPLODED * math.log(config.optim.batch_size), "nli_loss": EXPLODED * math.log(len(LABELS))}
        self.seconds, self.resumed_at = 0.0, time.perf_counter()
        self.bar = tqdm(unit=" pairs", unit_scale=True, dynamic_ncols=True, smoothing=0.05)

    def start_clock(self):
        """Count training time from here on; measuring and saving do not count."""
        self.resumed_at = time.perf_counter()

    def stop_clock(self):
        """Stop counting training time."""
        self.seconds += time.perf_counter() - self.resumed_at

    def resume(self, step, machine):
        """Take up the records of an earlier start up to `step`; later ones, and a line cut short, go.

        machine: what computes from here on, which is recorded.
        """
        path = self.folder / "log.jsonl"
        records = [record for record in read_log(path) if record["step"] <= step]
        write_text(path, "".join(json.dumps(record) + "\n" for record in records))
        self.steps = [record for record in records if {"loss", "nli_loss"} & record.keys()]
        self.measured = [record for record in records if "dev" in record]
        self.seconds = self.measured[-1]["seconds"] if self.measured else 0.0
        if machine not in [record["machine"] for record in records if "machine" in record][-1:]:
            self._write([], {"step": step, "machine": machine})

    def after_step(self, step, batch, loss):
        """Take note of the loss of a step's batch, a 0-d array of either device; log means now and then."""
        self.losses.append(("nli_loss" if isinstance(batch, NliBatch) else "loss", loss))
        if len(self.losses) >= self.log_every:
            self.log(step)
        self.bar.update(len(batch.sentences.lengths) // 2)

    def log(self, step):
        """Log the mean of each task's losses since the last time. Raises Diverged where one is not sound."""
        losses = [(task, float(loss)) for task, loss in self.losses]      # the device is waited for only here
        for at, (task, loss) in enumerate(losses, start=step - len(losses) + 1):
            if not loss < self.most[task]:                    # nan is not
                raise Diverged(at, loss)
        if losses:
            self.losses, some = [], {task: [loss for name, loss in losses if name == task] for task in dict(losses)}
            means = {task: sum(some[task]) / len(some[task]) for task in sorted(some)}
            self.bar.set_postfix({task: f"{mean:.3f}" for task, mean in means.items()}, refresh=False)
            self._write(self.steps, {"step": step, **means})

    def measure(self, step, model):
        """P@N on dev, and NLI's accuracy there: printed, recorded, drawn."""
        ranks = response.model_ranks(model, self.dev, *self.test)
        record = {"step": step, "seconds": round(self.seconds, 1),
                  "dev": {str(n): round(response.precision(ranks, n)[0], 2) for n in response.N}}
        figures = [f"P@{n} {value:4.1f}" for n, value in record["dev"].items()]
        if self.nli_dev:
            record["nli"] = round(100 * float((classify(model, self.nli_dev) == self.nli_dev.labels).mean()), 2)
            figures.append(f"NLI {record['nli']:4.1f}")
        self._write(self.measured, record)
        self.bar.write(f"step {step:6,}   {self.seconds:5.0f} s   dev {'   '.join(figures)}")
        plot_precision(self.folder / "p_at_n.png", self.measured)
        if self.nli_dev:
            plot_accuracy(self.folder / "nli.png", self.measured)
        if self.steps:
            plot_loss(self.folder / "loss.png", self.steps, self.config.optim.batch_size)

    def expect(self, steps, pairs, seen):
        """Tell the progress bar how many steps and pairs there are, and how many pairs have been seen."""
        self.log_every = max(10, steps // LOGGED)
        self.bar.total = pairs
        self.bar.update(seen - self.bar.n)

    def _write(self, records, record):
        records.append(record)
        path = self.folder / "log.jsonl"
        try:
            with open(path, "a", encoding="utf-8") as log:
                log.write(json.dumps(record) + "\n")
        except OSError as error:
            raise UserError(f"{path}: cannot be written ({error.strerror}); make room there, then go on with: python -m "
                            f"convsim_mini.train --resume {self.folder}") from None


class Diverged(Exception):
    """The loss, or a parameter, is no longer a sound number: Diverged(step, loss)."""
