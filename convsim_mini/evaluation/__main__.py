"""Every evaluation of one or more runs. Tasks without data are shown as not measured.

    python -m convsim_mini.evaluation RUN… [--on sts cqa …] [--data DIR] [--out DIR] [--json]

--out DIR writes the same tables as a page, evaluation.md, with figures 7 and 8 of the paper and the
runs' curves on dev, and all figures as figures.csv.
"""

import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

from ..common.cli import Parser, UserError, errors_in_one_line
from ..training.run import load_run
from . import EVALUATIONS
from .figures import write_page
from .results import across, json_lines, rows_of, show

OPTIONS = {
    "--data": {"type": Path, "help": "folder with any of stsbenchmark/, snli_1.0/, cqa/ and "
               "senteval/; without it, the package's own small sets and the run's NLI data are "
               "used"},
    "--on": {"nargs": "+", "choices": EVALUATIONS, "default": [*EVALUATIONS],
             "help": "tasks to measure (default: all; senteval takes minutes per run)"},
    "--out": {"type": Path, "metavar": "DIR", "help": "write the tables as a page, with figures, "
              "and every figure as CSV, into this folder"},
    "--device": {"choices": ("cpu", "gpu"), "default": "cpu"},
    "--json": {"action": "store_true", "help": "print the rows as JSON, one object per line: "
               "metric → [value, low, high]; the rest goes to standard error"}}


def parser_of(command, doc, *options, **of_run):
    """The parser of `python -m convsim_mini.COMMAND RUN`.

    options: names from OPTIONS; of_run: further settings of the argument RUN
    """
    parser = Parser(f"convsim_mini.{command}", doc)
    parser.add_argument("run", type=Path, **{"help": "the run's folder", **of_run})
    for option in options:
        parser.add_argument(option, **OPTIONS[option])
    return parser


@errors_in_one_line()
def main(argv=None, task="", options=("--data",), **of_run):
    """The command of one task, `python -m convsim_mini.evaluation.TASK RUN`, or that of all.

    That of all reports the tasks that lack data, by --on. options, of_run: as in `parser_of`
    """
    doc = import_module(f".{task}", __package__).__doc__ if task else __doc__
    if not task:
        options, of_run = (*options, "--on", "--out"), {"nargs": "+", "help": "the runs' folders"}
    parser = parser_of(f"evaluation.{task}".rstrip("."), doc, *options, "--device", "--json",
                       **of_run)
    given, found = vars(parser.parse_intermixed_args(argv)), []
    folders = given["run"] if isinstance(given["run"], list) else [given["run"]]
    with redirect_stdout(sys.stderr if given["json"] else sys.stdout):
        runs = [load_run(folder, given["device"]) if folder else None for folder in folders]
        for one in given.get("on", [task]):
            for ones in across(runs, given.get("data"), one):
                first, *_ = ones.values()
                if first.absent and task:
                    raise UserError(first.absent)
                if first.absent or not given["json"]:
                    print(show(ones) + "\n")
                found.append(ones)
        if given.get("out"):
            print(write_page(given["out"], runs, found))
    if given["json"]:
        print(json_lines(rows_of(found)))


if __name__ == "__main__":
    main()
