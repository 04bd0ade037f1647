"""Train the runs of the paper's figure 8: multitask from one run, on 10, 20 … 100% of the NLI data.

    python -m convsim_mini.report.fractions RUN --nli DIR [options of convsim_mini.train]
"""

import argparse
import signal
import subprocess
import sys
from pathlib import Path

from ..cli import errors_in_one_line, handling
from ..evaluation.command import parser_of
from ..run import finished

SHARES = tuple(k / 10 for k in range(1, 11))


def train(*options):
    """Run the training command to its end; if it fails or is stopped, end with its exit code."""
    # Both save a checkpoint. Ctrl-C reaches the training by itself; SIG_IGN would be inherited.
    with (subprocess.Popen([sys.executable, "-m", "convsim_mini.train", *map(str, options)]) as run,
          handling({signal.SIGINT: lambda *_: None, signal.SIGTERM: lambda *_: run.terminate()})):
        code = run.wait()
    if code:
        sys.exit(code)


@errors_in_one_line()
def main(argv=None):
    """The command: train those that are not there yet, go on with a stopped one; name them."""
    parser = parser_of("report.fractions", __doc__, help="the run to start from")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of convsim_mini.train, "
                        "--nli DIR among them")
    given = parser.parse_args(argv)
    folders = {share: Path(f"{given.run}-nli-{100 * share:.0f}") for share in SHARES}
    for share, folder in folders.items():
        if not (folder / "config.json").exists():
            train("--task", "multitask", "--init", given.run, "--nli_fraction", share,
                  "--run", folder, *given.options)
        elif not (finished(folder) and (folder / "all_but_the_top.safetensors").exists()):
            train("--resume", folder)
    print("python -m convsim_mini.report", given.run, *folders.values())


if __name__ == "__main__":
    main()
