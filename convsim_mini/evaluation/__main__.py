"""Every evaluation of a run. Tasks without data are shown as not measured.

    python -m convsim_mini.evaluation RUN [--on sts cqa …] [--data DIR] [--json]
"""

from . import command


def main(argv=None):
    """The command."""
    command.main("__main__", "--data", "--on", argv=argv)


if __name__ == "__main__":
    main()
