"""What the evaluations' commands share: options, what encodes, and the order of the functions."""

from importlib import import_module
from pathlib import Path

import numpy as np

from ..common.cli import Parser, errors_in_one_line
from ..core.layers import l2_normalize_forward
from ..core.model import embed
from ..inference.sentence_encoder import tell_cut
from ..training.run import Run, load_run
from .baselines import words_of
from .word_vectors import read_vectors

OPTIONS = {
    "--data": {"type": Path, "help": "folder with stsbenchmark/, snli_1.0/, cqa/ and senteval/, as "
               "far as they are there; without it evaluations take the small own sets, and the NLI "
               "data of the run"},
    "--vectors": {"type": Path, "help": "word vectors to compare with: word2vec or GloVe text, "
                  "perhaps .gz or .zst"},
    "--device": {"choices": ("cpu", "gpu"), "default": "cpu"}}


def parser_of(command, doc, *options, **of_run):
    """The parser of `python -m convsim_mini.COMMAND RUN`.

    options: names from OPTIONS; of_run: further settings of RUN
    """
    parser = Parser(f"convsim_mini.{command}", doc)
    parser.add_argument("run", type=Path, **{"help": "the run's folder", **of_run})
    for option in options:
        parser.add_argument(option, **OPTIONS[option])
    return parser


def unit_vectors(encode, texts):
    """A list of n texts → unit vectors (n, d)."""
    if not isinstance(encode, Run):
        return l2_normalize_forward(np.asarray(encode(texts)))[0]
    packed = encode.vocabulary.encode(texts)
    tell_cut(encode.config.model, packed.lengths)
    return embed(encode.model, packed)


def evaluate(name, encode, sources, vectors=None):
    """Read, score and print data sets of the task in the file NAME.py.

    encode: a Run; or a function from a list of n texts to vectors (n, d), as every library of
    sentence embeddings has one; or None for the baselines alone
    sources: what the task's `find` returned; vectors: a file of word vectors. Raises UserError.
    """
    task = import_module(f".{name}", __package__)
    run = encode if isinstance(encode, Run) else None
    datasets = {source: task.read(path) for source, path in sources.items()}
    if vectors and hasattr(task, "texts_of"):                 # one pass over what may be large
        texts = [text for dataset in datasets.values() for text in task.texts_of(dataset)]
        vectors = {vectors.name: read_vectors(vectors, words_of(texts))}
    for source, dataset in datasets.items():
        scores = task.scores(encode, dataset) if encode else {}
        baselines = task.baselines(run, dataset, vectors)
        print(task.summary(source, dataset, scores, baselines) + "\n")


@errors_in_one_line()
def main(name, *options, argv=None, **of_run):
    """The command of one task, `python -m convsim_mini.evaluation.NAME RUN`; of_run: of RUN."""
    task = import_module(f".{name}", __package__)
    parser = parser_of(f"evaluation.{name}", task.__doc__, *options, "--device", **of_run)
    given = parser.parse_intermixed_args(argv)
    run = load_run(given.run, given.device) if given.run else None
    sources = task.find(getattr(given, "data", None), run)
    evaluate(name, run, sources, getattr(given, "vectors", None))
