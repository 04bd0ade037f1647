"""Question ranking: which of ten questions ask the same thing? (SemEval-2016 Task 3, subtask B)

A run's score for a candidate is the cosine of the two texts. The baselines are the search engine's
order, TF-IDF, and the baselines of STS.
"""

from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import ParseError, parse

import numpy as np

from ..common.cli import UserError, user_errors
from ..core.ranking import settled
from ..data.labelled import DataSet, find_files
from ..inference.tfidf import document_frequency, tfidf, vocabulary_of
from . import BUILT_IN
from .baselines import cosines, pair_baselines, with_words
from .metrics import (
    average_precision, average_recall, difference, mean_figure, reciprocal_rank, top_of_ranking,
    without_interval)

COMPARED = "trained, with words"
TASK_3 = DataSet("the English XML of SemEval Task 3", ("*.xml",), ("cqa",))
RELEVANT = {"PerfectMatch": True, "Relevant": True, "Irrelevant": False}
SEARCH_ENGINE, TFIDF = "search engine's order", "TF-IDF cosine"
OWN = Path(__file__).with_name("own_cqa.xml")
OWN_NOTE = ("The built-in set has a few questions made for this project, each judged once. Their "
            "candidates are in random order, not a search engine's. The set shows that ranking "
            "works, but must not be compared with published figures.")


class Candidate(NamedTuple):
    """A related question. rank: the search engine's, from 1"""

    id: str
    rank: int
    relevant: bool
    text: str


class Question(NamedTuple):
    """An original question and the related ones that a search engine found, in the file's order."""

    id: str
    text: str
    candidates: list    # of Candidates


def find(data, run=None):
    """File name → labelled XML file in DIR or DIR/cqa; without DIR, the built-in set."""
    if data is None:
        return {BUILT_IN: OWN}
    found = find_files([TASK_3], data)[TASK_3.name]
    return {name.removesuffix(".xml"): path for name, path in found.items()}


def read(path):
    """The Questions in an official XML file, which repeats a question for each candidate.

    Raises UserError with file and place.
    """
    with user_errors(f"{path}: cannot be read as XML", f"expected {TASK_3.name}",
                     (OSError, ParseError, ValueError, LookupError)):
        root = parse(path).getroot()
    questions = {}
    for number, element in enumerate(root.iter("OrgQuestion"), start=1):
        row = {key: value for part in element.iter()
               for key, value in (*part.items(), (part.tag, part.text or ""))}
        with user_errors(f"{path}, OrgQuestion {number}: a field is missing or wrong",
                         f"expected {TASK_3.name}", (KeyError, ValueError)):
            texts = [" ".join(f"{row[f'{kind}QSubject']} {row[f'{kind}QBody']}".split())
                     for kind in ("Org", "Rel")]
            question = questions.setdefault(row["ORGQ_ID"], Question(row["ORGQ_ID"], texts[0], []))
            question.candidates.append(Candidate(
                row["RELQ_ID"], int(row["RELQ_RANKING_ORDER"]),
                RELEVANT[row["RELQ_RELEVANCE2ORGQ"]], texts[1]))
    if not questions:
        raise UserError(f"{path}: contains no question of subtask B (OrgQuestion); expected "
                        f"{TASK_3.name}; move other files away")
    return list(questions.values())


def scores(run, questions, encode):
    """Cosines of embeddings: row name → (n,), for the candidates of all questions.

    For a Run also with its words in common (ours): meaning + words, as in a search.
    """
    texts, pairs = texts_of(questions), pairs_of(questions)
    rows = {"trained": cosines(np.asarray(encode(texts), np.float64), *pairs)}
    return rows | with_words(run, rows, texts, *pairs)


def baselines(run, questions):
    """The search engine's order, TF-IDF and `pair_baselines`: row → (n,)."""
    texts, pairs = texts_of(questions), pairs_of(questions)
    ranks = [candidate.rank for question in questions for candidate in question.candidates]
    vocabulary, packed = vocabulary_of(texts)
    vectors = tfidf(packed, *document_frequency(packed, vocabulary.size))
    return {SEARCH_ENGINE: 1 / np.array(ranks), TFIDF: cosines(vectors, *pairs),
            **pair_baselines(texts, *pairs, run)}


def title(name, questions):
    """The table's heading, with the numbers of questions and pairs."""
    return f"{name}: {len(questions)} questions, {len(pairs_of(questions)[0])} pairs; × 100"


def figures(questions, scores):
    """MAP, AvgRec and MRR × 100: scores (n,) → metric → (value, low, high); nan if constant."""
    ranked = np.ptp(settled(np.asarray(scores))) > 0
    relevant, percent = top_ten(questions, scores), 100 if ranked else np.nan
    return {"MAP": mean_figure(percent * average_precision(relevant)),
            "AvgRec": without_interval(percent * average_recall(relevant)),
            "MRR": mean_figure(percent * reciprocal_rank(relevant))}


def lead(questions, one, other):
    """How much higher MAP × 100 is for scores `one` than for `other`, (n,); see `difference`."""
    return difference(np.mean, *(100 * average_precision(top_ten(questions, scores))
                                 for scores in (one, other)))


def pairs_of(questions):
    """The places in texts_of of each candidate's question and of the candidate: int (n,), (n,)."""
    counts = [len(question.candidates) for question in questions]
    return np.repeat(np.arange(len(counts)), counts), len(counts) + np.arange(sum(counts))


def texts_of(questions):
    """The texts of all questions, then the texts of all candidates."""
    return [question.text for question in questions] + [
        candidate.text for question in questions for candidate in question.candidates]


def top_ten(questions, scores):
    """`top_of_ranking` of each question: scores (n,) → int (q, 11), the top ten and the rest."""
    relevant = [[candidate.relevant for candidate in question.candidates] for question in questions]
    ends = np.cumsum([len(of_question) for of_question in relevant])
    return np.stack([*map(top_of_ranking, relevant, np.split(scores, ends[:-1]))])
