"""Every table and figure of the paper from your own runs, and their results on every task.

    python -m convsim_mini.report RUN… [--data DIR] [--on response sts …] [--out DIR]
"""

from pathlib import Path

from ..common.cli import errors_in_one_line, user_errors
from ..common.files import write_text
from ..evaluation.command import parser_of
from ..training.run import load_run
from .compare import measure
from .page import page


@errors_in_one_line()
def main(argv=None):
    """The command: measure every run on all data; write the page and its figures."""
    parser = parser_of("report", __doc__, "--data", "--on", nargs="+", help="the runs' folders")
    parser.add_argument("--out", type=Path, default=Path("report"),
                        help="folder for report.md and its figures")
    options = parser.parse_intermixed_args(argv)
    runs = [load_run(folder) for folder in options.run]
    with user_errors(f"{options.out}: cannot be made", "choose another folder with --out"):
        options.out.mkdir(parents=True, exist_ok=True)
    results = measure(runs, options.data, options.on)
    write_text(options.out / "report.md", page(results, options.on, options.out))
    print(f"{options.out / 'report.md'}: {len(results)} runs")


if __name__ == "__main__":
    main()
