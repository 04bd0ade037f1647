"""Train the runs of the paper's figure 8: multitask from one run, on 10, 20 … 100% of the NLI data.

    python -m convsim_mini.report.fractions RUN --nli DIR [options of convsim_mini.train]

The same command goes on where it was stopped. A folder that exists must have the same settings.
"""

import argparse
import signal
import subprocess
import sys
from pathlib import Path

from ..common.cli import UserError, errors_in_one_line, handling, python_m
from ..evaluation.command import parser_of
from ..training.options import parse_config
from ..training.run import difference, load_config, settings_of

SHARES = tuple(k / 10 for k in range(1, 11))


def train(*options):
    """Run the training command to its end; if it fails or is stopped, end with its exit code."""
    # A signal makes the training save a checkpoint. A terminal sends SIGINT to both processes.
    with (subprocess.Popen([sys.executable, "-m", "convsim_mini.train", *options]) as run,
          handling({signal.SIGTERM: lambda *_: run.terminate()})):
        code = run.wait()
    if code:
        sys.exit(code if code > 0 else 128 - code)            # below 0: a signal has ended it


@errors_in_one_line()
def main(argv=None):
    """The command: train the runs one after the other; name all."""
    parser = parser_of("report.fractions", __doc__, help="the run to start from")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of convsim_mini.train, "
                        "--nli DIR among them")
    given = parser.parse_args(argv)
    folders = [Path(f"{given.run}-nli-{100 * share:.0f}") for share in SHARES]
    for share, folder in zip(SHARES, folders):
        options = ["--task", "multitask", "--init", str(given.run), "--nli_fraction", str(share),
                   "--run", str(folder), *given.options]
        asked = parse_config(options)
        if not (folder / "config.json").exists():
            train(*options)
            continue
        found, expected = (settings_of(config) | {"nli": config.nli}
                           for config in (load_config(folder), asked))
        found.pop("optim.batch_size")    # training lowers it where there are fewer pairs
        if other := difference(found, expected):
            raise UserError("{}: was trained with --{} {}, now {} is asked for; give the same "
                            "options, or move that folder away".format(folder, *other))
        train("--resume", str(folder))
    print(python_m("convsim_mini.report"), given.run, *folders)


if __name__ == "__main__":
    main()
