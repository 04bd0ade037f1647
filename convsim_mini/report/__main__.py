"""Every table and figure of the paper from your own runs, and what every task measures of them.

    python -m convsim_mini.report RUN… [--data DIR] [--on response sts …] [--out DIR]
"""

from pathlib import Path

from ..common.cli import UserError, errors_in_one_line, progress, user_errors
from ..common.files import locked, write_text
from ..evaluation import EVALUATIONS
from ..evaluation.command import parser_of
from ..training.run import load_run
from .page import page
from .results import measure


@errors_in_one_line()
def main(argv=None):
    """The command: measure every run on all data, write the page and its figures."""
    parser = parser_of("report", __doc__, nargs="+", help="folders of runs", data="folder with "
                       "stsbenchmark/, snli_1.0/, cqa/ and senteval/, as far as they are there; "
                       "without it the small own sets, and the NLI data of each run")
    parser.add_argument("--on", nargs="+", choices=EVALUATIONS, default=[*EVALUATIONS],
                        help="which tasks (default: all; senteval takes minutes a run)")
    parser.add_argument("--out", type=Path, default=Path("report"),
                        help="folder for report.md and its figures")
    options = parser.parse_intermixed_args(argv)
    runs = [load_run(folder) for folder in options.run]
    if all(run.config.nli_fraction < 1 for run in runs):
        raise UserError(f"{options.run[0]}: was trained on a part of the NLI data; name a run with "
                        "all or none of it as well")
    with user_errors(f"{options.out}: cannot be made", "choose another folder with --out"):
        options.out.mkdir(parents=True, exist_ok=True)
    for_figure_8 = [task for task in options.on if task == "sts"]
    results = [measure(run, options.data,
                       options.on if run.config.nli_fraction == 1 else for_figure_8)
               for run in progress(runs, "measuring", unit=" runs")]
    with locked(options.out):                                 # a page and its figures are of one
        write_text(options.out / "report.md", page(results, options.on, options.out))
    print(f"{options.out / 'report.md'}: {len(results)} runs")


if __name__ == "__main__":
    main()
