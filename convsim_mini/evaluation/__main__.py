"""Every evaluation of a run. A task without its data is named.

    python -m convsim_mini.evaluation RUN [--on sts cqa …] [--data DIR] [--vectors FILE]
"""

from importlib import import_module

from ..common.cli import UserError, errors_in_one_line
from ..training.run import load_run
from . import EVALUATIONS
from .command import evaluate, parser_of


@errors_in_one_line()
def main(argv=None):
    """The command: the tasks in turn, then which could not be measured, and why."""
    parser = parser_of("evaluation", __doc__, "--data", "--vectors", "--device")
    parser.add_argument("--on", nargs="+", choices=EVALUATIONS, default=EVALUATIONS,
                        help="which tasks (default: all)")
    options = parser.parse_intermixed_args(argv)
    run = load_run(options.run, options.device)
    absent = []
    for name in options.on:
        try:
            sources = import_module(f".{name}", __package__).find(options.data, run)
        except UserError as error:
            absent.append(f"{name}: not measured. {error}")
        else:
            evaluate(name, run, sources, options.vectors)
    print("\n".join(absent))


if __name__ == "__main__":
    main()
