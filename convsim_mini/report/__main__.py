"""Every table and figure of the paper from your own runs, and a page of each run to look at.

    python -m convsim_mini.report RUN… [--data DIR] [--out DIR]
"""

from pathlib import Path

from ..cli import UserError, errors_in_one_line, progress, user_errors
from ..evaluation.command import parser_of
from ..files import write_text
from ..run import load_run
from ..workspace import locked
from .page import page
from .results import measure, read_data
from .web_page import web_page


@errors_in_one_line()
def main(argv=None):
    """The command: measure every run on all data, write both pages and the figures."""
    parser = parser_of("report", __doc__, nargs="+", help="folders of runs", data="folder with "
                       "stsbenchmark/, snli_1.0/ and cqa/, as far as they are there")
    parser.add_argument("--out", type=Path, default=Path("report"),
                        help="folder for report.md, its figures and report.html")
    options = parser.parse_intermixed_args(argv)
    runs = [load_run(folder) for folder in options.run]
    if all(run.config.nli_fraction < 1 for run in runs):
        raise UserError(f"{options.run[0]}: was trained on a part of the NLI data; name a run with "
                        "all or none of it as well")
    data = read_data(options.data)
    with user_errors(f"{options.out}: cannot be made", "choose another folder with --out"):
        options.out.mkdir(parents=True, exist_ok=True)
    results = [measure(run, data) for run in progress(runs, "measuring", unit=" runs")]
    with locked(options.out):                                 # a page and its figures are of one
        write_text(options.out / "report.md", page(results, data, options.out))
        write_text(options.out / "report.html", web_page(results, data))
    print(f"{options.out / 'report.md'} and report.html: {len(results)} runs")


if __name__ == "__main__":
    main()
