"""Question ranking: which of ten forum questions ask the same? (SemEval-2016 Task 3, subtask B)

    python -m convsim_mini.evaluation.cqa RUN [--data DIR]
    python -m convsim_mini.evaluation.cqa --gold FILE [--submission FILE …]
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from ..checkpoint import load_run
from ..cli import TextParser, UserError, errors_in_one_line
from ..model import cut_report, embed
from ..text import Vocabulary, tokenize
from .baselines import document_frequency, tfidf
from .metrics import ranking_scores, top_of_ranking
from .semeval import read_questions, read_submission
from .tables import table

OWN = Path(__file__).with_name("own_cqa.xml")
OWN_NOTE = ("The own set is a few questions written and judged for this project by one person, in a random order where "
            "a search engine's would stand: good for seeing that ranking works, never to be read beside published figures.")


def find_cqa(data):
    """Split name → labelled XML file in DIR or DIR/cqa; the own set without DIR."""
    if data is None:
        return {"own set": OWN}
    for folder in (Path(data), Path(data, "cqa")):
        found = {path.stem: path for path in sorted(folder.glob("*.xml")) if not path.stem.endswith("-input")}
        if found:
            return found
    raise UserError(f"{data}: holds no *.xml with labels, nor does {data}/cqa; unpack the English files of SemEval Task 3 "
                    "there, or leave out --data for the small own set")


def search_engine_scores(questions):
    """1/rank in the search engine's order, for each candidate of each question."""
    return [[1 / candidate.rank for candidate in question.candidates] for question in questions]


def cosines(questions, vectors):
    """Cosine of each question with its candidates; vectors: texts → matrix of unit rows."""
    original = vectors([question.text for question in questions])
    related = vectors([candidate.text for question in questions for candidate in question.candidates])
    scores, first = [], 0
    for k, question in enumerate(questions):
        last = first + len(question.candidates)
        products = related[first:last] @ original[[k]].T                  # (candidates, 1), perhaps sparse
        scores.append(np.ravel(products if isinstance(products, np.ndarray) else products.toarray()))
        first = last
    return scores


def tfidf_vectors(questions):
    """A function from texts to TF-IDF vectors, document frequencies taken from these questions."""
    texts = [question.text for question in questions]
    texts += [candidate.text for question in questions for candidate in question.candidates]
    sentences = [tokenize(text) for text in texts]
    vocabulary = Vocabulary.from_counts(Counter(token for tokens in sentences for token in tokens), None, 1)
    fitted = document_frequency(vocabulary.pack(sentences), vocabulary.size)
    return lambda some: tfidf(vocabulary.encode(some), *fitted)


def report(name, questions, scores):
    """The table of MAP, AvgRec and MRR × 100 with 95% intervals; scores: row name → list of lists."""
    rows = []
    for row, of_questions in scores.items():
        top = [top_of_ranking([candidate.relevant for candidate in question.candidates], some)
               for question, some in zip(questions, of_questions)]
        figures = 100 * ranking_scores(np.stack(top))
        rows.append([row, *(f"{value:.2f} [{low:.1f}, {high:.1f}]" for value, low, high in figures)])
    pairs = sum(len(question.candidates) for question in questions)
    return table([f"{name}: {len(questions)} questions, {pairs} pairs", "MAP", "AvgRec", "MRR"], rows)


def compare(questions, loaded):
    """Scores of the search engine, TF-IDF and, if there is a Run, its model: row name → list of lists.

    A model sees the cosine of the texts alone; the search engine's rank is no feature.
    """
    scores = {"search engine's order": search_engine_scores(questions)}
    if questions[0].text is not None:
        if loaded:
            scores["trained"] = cosines(questions, lambda texts: _embed(loaded, texts))
        scores["TF-IDF cosine"] = cosines(questions, tfidf_vectors(questions))
    return scores


def _embed(loaded, texts):
    packed = loaded.vocabulary.encode(texts)
    if loaded.config.model.encoder == "transformer" and packed.lengths.max() > loaded.config.model.max_tokens:
        print(cut_report(loaded.config.model, packed.lengths))
    return embed(loaded.model, packed)


def parse_options(argv):
    """The command's options."""
    parser = TextParser(prog="python -m convsim_mini.evaluation.cqa", description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", help="the run's folder; without one, only the others are scored")
    parser.add_argument("--data", type=Path, help="folder with the official XML files, or with cqa/; the own set without")
    parser.add_argument("--gold", type=Path, help="one XML or .relevancy file instead of a folder")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--submission", type=Path, nargs="+", default=[], help="participants' score files for --gold")
    options = parser.parse_intermixed_args(argv)
    if options.submission and not options.gold:
        raise UserError("--submission: needs --gold FILE, the labels to score it by")
    if options.gold and options.data:
        raise UserError("--gold and --data: choose one; --data scores every labelled XML file of a folder")
    return options


def main(argv=None):
    """The command: a table for each file."""
    options = parse_options(sys.argv[1:] if argv is None else argv)
    loaded = load_run(options.run, options.device) if options.run else None
    for name, path in ({options.gold.name: options.gold} if options.gold else find_cqa(options.data)).items():
        questions = read_questions(path)
        if loaded and questions[0].text is None:
            raise UserError(f"{path}: holds no texts to embed; score a run by the XML file")
        scores = compare(questions, loaded)
        scores |= {file.name: read_submission(file, questions) for file in options.submission}
        print(report(name, questions, scores) + "\n")
    if not (options.gold or options.data):
        print(OWN_NOTE)


if __name__ == "__main__":
    with errors_in_one_line():
        main()
