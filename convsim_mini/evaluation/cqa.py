"""Question ranking: which of ten forum questions ask the same? (SemEval-2016 Task 3, subtask B)

    python -m convsim_mini.evaluation.cqa RUN [--data DIR] [--vectors FILE]
    python -m convsim_mini.evaluation.cqa --gold FILE [--submission FILE …]

A run's score of a candidate is the cosine of the two texts. Beside it stand the search engine's
order, TF-IDF, and the baselines of STS; SimBow, which won the task of 2017, builds on the soft
cosine. Without a run, only what needs none is scored.
"""

from pathlib import Path

import numpy as np

from ..cli import UserError, cut_report, errors_in_one_line
from ..model.input_response import embed
from ..run import load_run
from ..tables import table
from .baselines import document_frequency, tfidf
from .command import evaluate, parser_of
from .metrics import map_difference, ranking_scores, top_of_ranking
from .semeval import read_questions, read_submission
from .task_files import find_files
from .word_baselines import pair_baselines, vocabulary_of

SEARCH_ENGINE, TFIDF = "search engine's order", "TF-IDF cosine"
OWN = Path(__file__).with_name("own_cqa.xml")
OWN_NOTE = ("The own set is a few questions made for this project, each judged once, in a random "
            "order where a search engine's would stand: good for seeing that ranking works, never "
            "to be read beside published figures.")


def find(data, run):
    """File name → labelled XML file in DIR or DIR/cqa; the own set without DIR."""
    if data is None:
        return {"own set": OWN}
    paths = find_files(data, "cqa", ["*.xml"], "the English files of SemEval Task 3")
    return {path.stem: path for path in paths}


def read(path):
    """The list of Questions in an XML or .relevancy file. Raises UserError with file and place."""
    return read_questions(path)


def scores(run, questions):
    """Cosines of the run's embeddings: row name → list of (candidates,)."""
    def vectors(texts):
        packed, config = run.vocabulary.encode(texts), run.config.model
        if config.encoder == "transformer" and packed.lengths.max() > config.max_tokens:
            print(cut_report(config, packed.lengths))
        return embed(run.model, packed)

    return {"trained": cosines(questions, vectors)}


def baselines(run, questions, vectors=None):
    """The search engine and, where there are texts, all that needs no training: as `scores`."""
    rows = {SEARCH_ENGINE: search_engine_scores(questions)}
    if questions[0].text is not None:
        rows[TFIDF] = cosines(questions, tfidf_vectors(questions))
        original, related = pairs_of(questions)
        rows |= {name: by_question(questions, pairs) for name, pairs in pair_baselines(
            texts_of(questions), original, len(questions) + related, run, vectors).items()}
    return rows


def summary(name, questions, scores, baselines):
    """The table of one file, and whether the run is better than what any ranking has to beat."""
    rows = scores | baselines
    parts = [score_table(name, questions, rows)]
    parts += [differences(questions, rows)] if scores else []
    return "\n\n".join(parts + [OWN_NOTE] * (name == "own set"))


def search_engine_scores(questions):
    """1/rank in the search engine's order, for each candidate of each question."""
    return [[1 / candidate.rank for candidate in question.candidates] for question in questions]


def pairs_of(questions):
    """For each candidate the number of its question, and its own number: int (n,), int (n,)."""
    counts = [len(question.candidates) for question in questions]
    return np.repeat(np.arange(len(counts)), counts), np.arange(sum(counts))


def by_question(questions, values):
    """Values of all candidates, (n,) → list of (candidates,)."""
    return np.split(values, np.cumsum([len(question.candidates) for question in questions])[:-1])


def texts_of(questions):
    """The texts of all questions, then those of all candidates."""
    return [question.text for question in questions] + [
        candidate.text for question in questions for candidate in question.candidates]


def cosines(questions, vectors):
    """Cosine of each question with its candidates; vectors: texts → matrix of unit rows."""
    texts, (original, related) = texts_of(questions), pairs_of(questions)
    products = vectors(texts[len(questions):]) @ vectors(texts[:len(questions)]).T     # (n, q)
    products = products if isinstance(products, np.ndarray) else products.toarray()
    return by_question(questions, products[related, original])


def tfidf_vectors(questions):
    """A function from texts to TF-IDF vectors, document frequencies taken from these questions."""
    vocabulary, packed = vocabulary_of(texts_of(questions))
    frequencies = document_frequency(packed, vocabulary.size)
    return lambda texts: tfidf(vocabulary.encode(texts), *frequencies)


def top_ten(questions, scores):
    """Which of each question's 10 best candidates are relevant: list of lists → bool (q, 10)."""
    relevant = [[candidate.relevant for candidate in question.candidates] for question in questions]
    return np.stack([*map(top_of_ranking, relevant, scores)])


def score_table(name, questions, scores):
    """The table of MAP, AvgRec and MRR × 100 with 95% intervals; scores: row name → lists."""
    rows = [[row, *("{:.2f} [{:.1f}, {:.1f}]".format(*(100 * figure))
                    for figure in ranking_scores(top_ten(questions, of_questions)))]
            for row, of_questions in scores.items()]
    title = f"{name}: {len(questions)} questions, {len(pairs_of(questions)[0])} pairs"
    return table([title, "MAP", "AvgRec", "MRR"], rows)


def differences(questions, scores):
    """Is "trained" better than the search engine and TF-IDF? MAP × 100, by a paired bootstrap."""
    lines = ["MAP of resampled questions, 95% intervals: trained is"]
    for name in (SEARCH_ENGINE, TFIDF):
        value, low, high = (100 * figure for figure in map_difference(
            top_ten(questions, scores["trained"]), top_ten(questions, scores[name])))
        verdict = "better than" if low > 0 else "worse than" if high < 0 else "not told apart from"
        lines.append(f"  {verdict:20}{name} ({value:+.2f} [{low:+.2f}, {high:+.2f}])")
    return "\n".join(lines)


@errors_in_one_line()
def main(argv=None):
    """The command: as that of every task, or with --gold one file whose submissions are scored."""
    parser = parser_of(
        "evaluation.cqa", __doc__, "--vectors", "--device", nargs="?",
        help="the run's folder; without one, only the others are scored",
        data="folder with the official XML files, or with cqa/; without it the small own set")
    parser.add_argument("--gold", type=Path, help="one XML or .relevancy file instead of a folder")
    parser.add_argument("--submission", type=Path, nargs="+", default=[],
                        help="participants' score files for --gold")
    options = parser.parse_intermixed_args(argv)
    gold = options.gold
    if options.submission and not gold:
        raise UserError("--submission: needs --gold FILE, the labels to score it by")
    if gold and options.data:
        raise UserError("--gold and --data: choose one; --data scores every XML file of a folder")
    if gold and gold.suffix != ".xml" and (options.run or options.vectors):
        raise UserError(f"{gold}: holds no texts to embed; score a run or vectors by the XML file")
    run = load_run(options.run, options.device) if options.run else None
    evaluate("cqa", run, {gold.name: gold} if gold else find(options.data, run), options.vectors,
             lambda questions: {file.name: read_submission(file, questions)
                                for file in options.submission})


if __name__ == "__main__":
    main()
