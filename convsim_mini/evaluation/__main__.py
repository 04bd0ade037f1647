"""Measure one or more runs on the paper's tasks. Tasks without data are shown as not measured.

    python -m convsim_mini.evaluation RUN… [--on sts cqa …] [--data DIR] [--out DIR] [--json]

Several runs are also compared: paired differences, and groups of seeds.
--out DIR writes the same tables as a page, evaluation.md, with figures 7 and 8 of the paper and the
runs' curves on dev, and all figures as figures.csv.
"""

import sys
from contextlib import nullcontext, redirect_stdout

from ..common.cli import UserError, errors_in_one_line, parser_of, path_of
from ..common.files import new_folder
from ..training.run import LOG, load_run, read_log
from . import EVALUATIONS
from .compare import comparison
from .page import write_page
from .results import json_lines, show, tables

TASKS = "; ".join(f"{task}: {purpose}" for task, purpose in EVALUATIONS.items())


@errors_in_one_line()
def main(argv=None):
    """The command: print every table as soon as it is measured."""
    parser = parser_of("evaluation", __doc__, "--device", "--json", nargs="+",
                       help="the runs' folders")
    parser.add_argument("--data", type=path_of, help="folder with any of stsbenchmark/, snli_1.0/, "
                        "cqa/ and senteval/; without it, the package's own small sets and the "
                        "run's NLI data are used")
    parser.add_argument("--on", nargs="+", choices=EVALUATIONS, default=[*EVALUATIONS],
                        help=f"tasks to measure (default: all; senteval takes minutes): {TASKS}")
    parser.add_argument("--out", type=path_of, metavar="DIR", help="write the tables as a page, "
                        "with figures, and every figure as CSV, into a new folder")
    options, shown = parser.parse_intermixed_args(argv), []
    if options.data and not options.data.is_dir():
        raise UserError(f"--data {options.data}: is not a folder")
    runs = [load_run(run, options.device) for run in options.run]
    page = (new_folder(options.out, "choose another folder with --out") if options.out
            else nullcontext())
    with page as folder, redirect_stdout(sys.stderr if options.json else sys.stdout):
        logs = [read_log(run.path.with_name(LOG)) for run in runs] if folder else []
        for ones in tables(runs, options.data, options.on):
            print(show(*ones) + "\n")
            shown.append(ones)
        found = [one for ones in shown for one in ones]
        if len(runs) > 1:
            print(comparison(runs, found) + "\n")
        if folder:
            write_page(folder, runs, logs, shown)
            print(f"{options.out / 'evaluation.md'}, figures.csv: "
                  f"{sum(not first.absent for first, *_ in shown)} tables")
    if options.json:
        print(json_lines(found))


if __name__ == "__main__":
    main()
