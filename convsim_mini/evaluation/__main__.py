"""Every evaluation of a run. A task without its data is named.

    python -m convsim_mini.evaluation RUN [--on sts cqa …] [--data DIR] [--vectors FILE] [--json]
"""

from functools import partial

from . import command

main = partial(command.main, "__main__", "--data", "--vectors", "--on")

if __name__ == "__main__":
    main()
