"""Every table and figure of the paper from your own runs, and a page of each run to look at.

    python -m convsim_mini.report RUN… [--data DIR] [--out DIR]
"""

from pathlib import Path

from ..common.cli import UserError, errors_in_one_line, progress, user_errors
from ..common.files import write_text
from ..common.workspace import locked
from ..evaluation.command import parser_of
from ..training.run import load_run
from .blocks import to_html, to_markdown
from .page import TITLE, page
from .results import measure, read_data
from .web_page import run_blocks


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
    tables = page(results, data)
    of_runs = [block for result in results for block in run_blocks(result, data)]
    with locked(options.out):                                 # a page and its figures are of one
        write_text(options.out / "report.md", to_markdown(TITLE, tables, options.out))
        write_text(options.out / "report.html", to_html(TITLE, tables + of_runs))
    print(f"{options.out / 'report.md'} and report.html: {len(results)} runs")


if __name__ == "__main__":
    main()
