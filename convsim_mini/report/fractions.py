"""Train the runs of the paper's figure 8: multitask from one run, with 10, 20 … 100% of the NLI data.

    python -m convsim_mini.report.fractions RUN --nli DIR [options of convsim_mini.train]
"""

import sys
from pathlib import Path

from .. import train
from ..cli import UserError, errors_in_one_line
from ..options import parse_config
from ..run import has_checkpoint, load_config, load_run

SHARES = tuple(k / 10 for k in range(1, 11))


def folder_of(run, share):
    """Where the run with this share of the NLI data goes: beside the one that it starts from."""
    return Path(f"{run}-nli-{100 * share:.0f}")


def main(argv=None):
    """The command: train those that are not there yet, go on with one that was stopped; name them all."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0].startswith("-"):
        raise UserError("expected a run's folder first: python -m convsim_mini.report.fractions RUN --nli DIR")
    run, *options = argv
    for share in SHARES:
        folder = folder_of(run, share)
        if not (folder / "config.json").exists():
            train.train(parse_config(["--task", "multitask", "--init", run, "--nli_fraction", str(share), "--run", str(folder),
                                      *options]))
        elif not has_checkpoint(folder) or load_run(folder).step < load_config(folder).steps:
            train.resume(folder)
    print("python -m convsim_mini.report", run, *(str(folder_of(run, share)) for share in SHARES))


if __name__ == "__main__":
    with errors_in_one_line():
        main()
