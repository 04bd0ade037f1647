"""Train the runs of the paper's figure 8: multitask from one run, on 10, 20 … 100% of the NLI data.

    python -m convsim_mini.report.fractions RUN --nli DIR [options of convsim_mini.train]
"""

import argparse
import signal
import subprocess
import sys
from pathlib import Path

from ..cli import UserError, errors_in_one_line, handling
from ..evaluation.command import parser_of
from ..options import parse_config
from ..run import difference, finished, load_config, settings_of

SHARES = tuple(k / 10 for k in range(1, 11))


def train(*options):
    """Run the training command to its end; if it fails or is stopped, end with its exit code."""
    # All save a checkpoint. Those of a terminal reach the training; SIG_IGN would be inherited.
    with (subprocess.Popen([sys.executable, "-m", "convsim_mini.train", *options]) as run,
          handling({signal.SIGINT: lambda *_: None, signal.SIGHUP: lambda *_: None,
                    signal.SIGTERM: lambda *_: run.terminate()})):
        code = run.wait()
    if code:
        sys.exit(code if code > 0 else 128 - code)            # below 0: a signal has ended it


def check_same(folder, asked):
    """Raise a UserError unless the run in a folder has the settings that a Config asks for."""
    had = load_config(folder)
    # training has lowered it where there are fewer pairs
    asked.optim.batch_size = min(asked.optim.batch_size, had.optim.batch_size)
    data = lambda config: {name: getattr(config, name) for name in ("pairs", "columns", "nli")}
    if other := difference(settings_of(had) | data(had), settings_of(asked) | data(asked)):
        raise UserError("{}: was trained with --{} {}, now {} is asked for; give the same options, "
                        "or move that folder away".format(folder, *other))


@errors_in_one_line()
def main(argv=None):
    """The command: train those that are not there yet, go on with a stopped one; name them."""
    parser = parser_of("report.fractions", __doc__, help="the run to start from")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of convsim_mini.train, "
                        "--nli DIR among them")
    given = parser.parse_args(argv)
    folders = {share: Path(f"{given.run}-nli-{100 * share:.0f}") for share in SHARES}
    options = {share: list(map(str, ["--task", "multitask", "--init", given.run, "--nli_fraction",
                                     share, "--run", folder, *given.options]))
               for share, folder in folders.items()}
    for share, folder in folders.items():
        asked = parse_config(options[share])
        if asked.minutes:
            raise UserError("--minutes: every run would have its own number of steps; give --steps")
        if (folder / "config.json").exists():
            check_same(folder, asked)
    for share, folder in folders.items():
        if not (folder / "config.json").exists():
            train(*options[share])
        elif not (finished(folder) and (folder / "all_but_the_top.safetensors").exists()):
            train("--resume", str(folder))
    print("python -m convsim_mini.report", given.run, *folders.values())


if __name__ == "__main__":
    main()
