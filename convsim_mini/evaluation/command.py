"""What the evaluations' commands share: their options, and the order of the five functions."""

from importlib import import_module
from pathlib import Path

from ..common.cli import Parser, errors_in_one_line, positive_int
from ..training.run import load_run
from .baselines import words_of
from .task_files import read_vectors

OPTIONS = {
    "--vectors": {"type": Path, "help": "word vectors to compare with: word2vec or GloVe text, "
                  "perhaps .gz or .zst"},
    "--hidden": {"type": positive_int, "default": 0, "metavar": "N", "help": "learn by one hidden "
                 "layer of N units (SentEval: 50), not by logistic regression"},
    "--device": {"choices": ("cpu", "gpu"), "default": "cpu"}}


def parser_of(command, description, *options, data=None, **of_run):
    """The parser of `python -m convsim_mini.COMMAND RUN`.

    options: names from OPTIONS; data: help of --data, if any; of_run: further settings of RUN
    """
    parser = Parser(prog=f"python -m convsim_mini.{command}",
                    description=description.splitlines()[0])
    parser.add_argument("run", type=Path, **{"help": "the run's folder", **of_run})
    if data:
        parser.add_argument("--data", type=Path, help=data)
    for option in options:
        parser.add_argument(option, **OPTIONS[option])
    return parser


def evaluate(name, run, sources, vectors=None, **settings):
    """Read, score and print data sets of the task in the file NAME.py.

    run: None for the baselines alone; sources: what the task's `find` returned; vectors: a file of
    word vectors; settings: of the task's own options. Raises UserError.
    """
    task = import_module(f".{name}", __package__)
    datasets = {source: task.read(path) for source, path in sources.items()}
    if vectors and hasattr(task, "texts_of"):                 # one pass over what may be large
        texts = [text for dataset in datasets.values() for text in task.texts_of(dataset)]
        vectors = {vectors.name: read_vectors(vectors, words_of(texts))}
    for source, dataset in datasets.items():
        scores = task.scores(run, dataset, **settings) if run else {}
        baselines = task.baselines(run, dataset, vectors, **settings)
        print(task.summary(source, dataset, scores, baselines) + "\n")
        if run and hasattr(task, "draw"):
            print(f"{task.draw(run, source, dataset, scores)}\n")


@errors_in_one_line()
def main(name, *options, data=None, argv=None, **of_run):
    """The command of one task, `python -m convsim_mini.evaluation.NAME RUN`; of_run: of RUN."""
    task = import_module(f".{name}", __package__)
    parser = parser_of(f"evaluation.{name}", task.__doc__, *options, "--device", data=data,
                       **of_run)
    given = vars(parser.parse_intermixed_args(argv))
    folder, device = given.pop("run"), given.pop("device")
    run = load_run(folder, device) if folder else None
    evaluate(name, run, task.find(given.pop("data", None), run), **given)
