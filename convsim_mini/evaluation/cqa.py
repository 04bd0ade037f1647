"""Question ranking: which of ten forum questions ask the same? (SemEval-2016 Task 3, subtask B)

    python -m convsim_mini.evaluation.cqa RUN [--data DIR] [--vectors FILE]
    python -m convsim_mini.evaluation.cqa --gold FILE [--submission FILE …]

Beside the run stand the search engine's order, TF-IDF, cosines of word sets, and means of word vectors, SIF and soft cosine
(SimBow, which won the task of 2017, builds on that one) by the run's own embeddings and by FILE's.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from ..cli import TextParser, UserError, errors_in_one_line
from ..data.text import Vocabulary, tokenize
from ..model.input_response import cut_report, embed
from ..run import load_run
from ..tables import table
from .baselines import bag_cosine, document_frequency, frequency_weight, tfidf
from .metrics import map_difference, ranking_scores, top_of_ranking
from .semeval import read_questions, read_submission
from .word_baselines import pair_similarities, vector_sources

SEARCH_ENGINE, TFIDF = "search engine's order", "TF-IDF cosine"
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


def texts_of(questions):
    """The texts of all questions, then those of all candidates."""
    texts = [question.text for question in questions]
    return texts + [candidate.text for question in questions for candidate in question.candidates]


def vector_scores(questions, sources, vocabulary=None):
    """The baselines from word vectors: row name → list of (candidates,).

    sources: what vector_sources returned for the texts of the questions; vocabulary: of p(word) for SIF,
    which without one takes it from the texts.
    """
    counts = [len(question.candidates) for question in questions]
    left, right = np.repeat(np.arange(len(counts)), counts), len(counts) + np.arange(sum(counts))
    found = pair_similarities(texts_of(questions), left, right, sources, vocabulary)
    return {name: np.split(similarity, np.cumsum(counts)[:-1]) for name, similarity in found.items()}


def tfidf_vectors(questions):
    """A function from texts to TF-IDF vectors, document frequencies taken from these questions."""
    sentences = [tokenize(text) for text in texts_of(questions)]
    vocabulary = Vocabulary.from_counts(Counter(token for tokens in sentences for token in tokens), None, 1)
    fitted = document_frequency(vocabulary.pack(sentences), vocabulary.size)
    return lambda some: tfidf(vocabulary.encode(some), *fitted)


def top_ten(questions, scores):
    """Which of the 10 best candidates of each question are relevant: scores: a list of lists → bool (q, 10)."""
    return np.stack([top_of_ranking([candidate.relevant for candidate in question.candidates], some)
                     for question, some in zip(questions, scores)])


def report(name, questions, scores):
    """The table of MAP, AvgRec and MRR × 100 with 95% intervals; scores: row name → list of lists."""
    rows = []
    for row, of_questions in scores.items():
        figures = 100 * ranking_scores(top_ten(questions, of_questions))
        rows.append([row, *(f"{value:.2f} [{low:.1f}, {high:.1f}]" for value, low, high in figures)])
    pairs = sum(len(question.candidates) for question in questions)
    return table([f"{name}: {len(questions)} questions, {pairs} pairs", "MAP", "AvgRec", "MRR"], rows)


def word_cosines(questions, weight):
    """bag_cosine of each question with its candidates: list of (candidates,)."""
    return [[bag_cosine(question.text, candidate.text, weight) for candidate in question.candidates] for question in questions]


def compare(questions, loaded, sources=None):
    """Scores of the search engine, the baselines and, if there is a Run, its model: row name → list of lists.

    sources: what vector_sources returned for the texts. A model sees the cosine of the texts alone; the
    search engine's rank is no feature. The weighted cosine takes p(word) from the run's vocabulary.
    """
    scores = {SEARCH_ENGINE: search_engine_scores(questions)}
    if questions[0].text is not None:
        if loaded:
            scores["trained"] = model_scores(questions, loaded)
        scores[TFIDF] = cosines(questions, tfidf_vectors(questions))
        scores["binary word cosine"] = word_cosines(questions, lambda token: 1.0)
        if loaded:
            scores["word cosine weighted a/(a+p)"] = word_cosines(questions, frequency_weight(loaded.vocabulary))
        if sources:
            scores |= vector_scores(questions, sources, loaded and loaded.vocabulary)
    return scores


def differences(questions, scores):
    """Lines: is "trained" better than the search engine's order and TF-IDF? MAP × 100, paired bootstrap.

    scores: what `compare` returned for a Run. "Better" and "worse" are only said where the 95% interval
    leaves out 0.
    """
    lines = ["MAP of resampled questions, 95% intervals: trained is"]
    for name in (SEARCH_ENGINE, TFIDF):
        value, low, high = (100 * figure for figure in map_difference(
            top_ten(questions, scores["trained"]), top_ten(questions, scores[name])))
        verdict = "better than" if low > 0 else "worse than" if high < 0 else "not told apart from"
        lines.append(f"  {verdict:20}{name} ({value:+.2f} [{low:+.2f}, {high:+.2f}])")
    return "\n".join(lines)


def model_scores(questions, loaded):
    """Cosines of a Run's embeddings: list of (candidates,)."""
    return cosines(questions, lambda texts: _embed(loaded, texts))


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
    parser.add_argument("--vectors", type=Path, help="word vectors to compare with: word2vec or GloVe text, perhaps .gz "
                        "or .zst, or a .npy matrix with its words in NAME.txt or in the folder's only .parquet file")
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
    files = {options.gold.name: options.gold} if options.gold else find_cqa(options.data)
    files = {name: read_questions(path) for name, path in files.items()}
    sources = {}
    if loaded or options.vectors:
        if options.gold and files[options.gold.name][0].text is None:
            raise UserError(f"{options.gold}: holds no texts to embed; score a run or word vectors by the XML file")
        sources = vector_sources([text for some in files.values() for text in texts_of(some)], loaded, options.vectors)
    for name, questions in files.items():
        scores = compare(questions, loaded, sources)
        scores |= {file.name: read_submission(file, questions) for file in options.submission}
        print(report(name, questions, scores) + "\n")
        if loaded:
            print(differences(questions, scores) + "\n")
    if not (options.gold or options.data):
        print(OWN_NOTE)


if __name__ == "__main__":
    with errors_in_one_line():
        main()
