"""Every evaluation of one or more runs. Tasks without data are shown as not measured.

    python -m convsim_mini.evaluation RUN… [--on sts cqa …] [--data DIR] [--out DIR] [--json]

--out DIR writes the same tables as a page, evaluation.md, with figures 7 and 8 of the paper and the
runs' curves on dev, and all figures as figures.csv.
"""

from . import command


def main(argv=None):
    """The command."""
    command.main("__main__", "--data", "--on", "--out", argv=argv, nargs="+",
                 help="the runs' folders")


if __name__ == "__main__":
    main()
