"""Question ranking: which of ten forum questions ask the same? (SemEval-2016 Task 3, subtask B)

    python -m convsim_mini.evaluation.cqa [RUN] [--data DIR] [--vectors FILE]

A run's score of a candidate is the cosine of the two texts. Beside it stand the search engine's
order, TF-IDF, and the baselines of STS; SimBow, which won the task of 2017, builds on the soft
cosine. Without a run, only what needs none is scored.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import ParseError, parse

from ..common.cli import UserError, positive_int, user_errors
from ..common.tables import table
from ..inference.sentence_encoder import encoder_of, tell_cut
from ..core.model import embed
from .baselines import document_frequency, dot_products, pair_baselines, tfidf, vocabulary_of
from .command import main
from .metrics import map_difference, ranking_scores, top_of_ranking, with_interval
from .task_files import find_files

NAME = "SemEval Task 3"
LABELS = {"PerfectMatch": True, "Relevant": True, "Irrelevant": False}
BOTH = "as encode gives it"
SEARCH_ENGINE, TFIDF = "search engine's order", "TF-IDF cosine"
OWN = Path(__file__).with_name("own_cqa.xml")
OWN_NOTE = ("The own set is a few questions made for this project, each judged once, in a random "
            "order where a search engine's would stand: good for seeing that ranking works, never "
            "to be read beside published figures.")


class Candidate(NamedTuple):
    """A related question."""

    id: str
    rank: int         # the search engine's, from 1
    relevant: bool
    text: str


class Question(NamedTuple):
    """An original question and the related ones that a search engine found, in the file's order."""

    id: str
    text: str
    candidates: list


def find(data, run):
    """File name → labelled XML file in DIR or DIR/cqa; the own set without DIR."""
    return find_files(data, "cqa", ["*.xml"], "the English files of SemEval Task 3", OWN)


def read(path):
    """The Questions in an official XML file, which repeats each beside each of its candidates.

    Raises UserError with file and place.
    """
    with (user_errors(f"{path}: cannot be read as XML", f"expected a file of {NAME}",
                      (OSError, ParseError, ValueError, LookupError)),
          user_errors(f"{path}: defines or refers to entities, which are refused",
                      "expected the official XML, whose DTD defines none", DefusedXmlException)):
        root = parse(path).getroot()    # accepts the file's inline DTD, refuses entities
    questions = {}
    for number, element in enumerate(root.iter("OrgQuestion"), start=1):
        with user_errors(f"{path}, OrgQuestion {number}: a part is missing or wrong",
                         "expected ORGQ_ID, Thread/RelQuestion, RELQ_ID, RELQ_RANKING_ORDER (1 or "
                         "more) and RELQ_RELEVANCE2ORGQ (PerfectMatch, Relevant, Irrelevant)",
                         (KeyError, AttributeError, ValueError)):
            related = element.find("Thread/RelQuestion")
            question = Question(
                element.attrib["ORGQ_ID"], _text(element, "OrgQSubject", "OrgQBody"), [])
            candidate = Candidate(
                related.attrib["RELQ_ID"], positive_int(related.attrib["RELQ_RANKING_ORDER"]),
                LABELS[related.attrib["RELQ_RELEVANCE2ORGQ"]],
                _text(related, "RelQSubject", "RelQBody"))
        questions.setdefault(question.id, question).candidates.append(candidate)
    if not questions:
        raise UserError(f"{path}: holds no question; expected the XML of {NAME}")
    return list(questions.values())


def _text(element, *parts):
    """The texts of child elements, joined by a space; an empty one is left out."""
    return " ".join(word for part in parts for word in (element.find(part).text or "").split())


def scores(run, questions):
    """Cosines of the run's embeddings: row name → (n,), for the candidates of all questions.

    The second row has the vectors that `encode` gives. They also count words (ours).
    """
    def vectors(texts):
        packed = run.vocabulary.encode(texts)
        tell_cut(run.config.model, packed.lengths)
        return embed(run.model, packed)

    return {"trained": cosines(questions, vectors),
            BOTH: cosines(questions, encoder_of(run).encode)}


def baselines(run, questions, vectors=None):
    """The search engine and all that needs no training: as `scores`."""
    return {SEARCH_ENGINE: search_engine_scores(questions),
            TFIDF: cosines(questions, tfidf_vectors(questions)),
            **pair_baselines(texts_of(questions), *pairs_of(questions), run, vectors)}


def summary(name, questions, scores, baselines):
    """The table of one file, and whether the run is better than what any ranking has to beat."""
    rows = scores | baselines
    parts = [score_table(name, questions, rows)]
    if scores:
        parts.append(differences(questions, rows))
    if name == "own set":
        parts.append(OWN_NOTE)
    return "\n\n".join(parts)


def search_engine_scores(questions):
    """1/rank in the search engine's order: (n,)."""
    return np.array([1 / candidate.rank for question in questions
                     for candidate in question.candidates])


def pairs_of(questions):
    """Where each candidate's question, and the candidate, stand in texts_of: int (n,), (n,)."""
    counts = [len(question.candidates) for question in questions]
    return np.repeat(np.arange(len(counts)), counts), len(counts) + np.arange(sum(counts))


def texts_of(questions):
    """The texts of all questions, then the texts of all candidates."""
    return [question.text for question in questions] + [
        candidate.text for question in questions for candidate in question.candidates]


def cosines(questions, vectors):
    """Cosine of each question with its candidates: (n,); vectors: texts → matrix of unit rows."""
    texts = texts_of(questions)
    products = dot_products(vectors(texts[len(questions):]), vectors(texts[:len(questions)]))
    original, related = pairs_of(questions)
    return products[related - len(questions), original]                   # of (n, q)


def tfidf_vectors(questions):
    """A function from texts to TF-IDF vectors, document frequencies taken from these questions."""
    vocabulary, packed = vocabulary_of(texts_of(questions))
    frequencies = document_frequency(packed, vocabulary.size)
    return lambda texts: tfidf(vocabulary.encode(texts), *frequencies)


def top_ten(questions, scores):
    """Which of each question's 10 best candidates are relevant: scores (n,) → bool (q, 10)."""
    relevant = [[candidate.relevant for candidate in question.candidates] for question in questions]
    ends = np.cumsum([len(of_question) for of_question in relevant])
    return np.stack([*map(top_of_ranking, relevant, np.split(scores, ends[:-1]))])


def score_table(name, questions, scores):
    """The table of MAP, AvgRec and MRR × 100 with 95% intervals; scores: row name → (n,)."""
    rows = []
    for row, of_candidates in scores.items():
        measures = 100 * ranking_scores(top_ten(questions, of_candidates))
        rows.append([row, *("{:.2f} [{:.1f}, {:.1f}]".format(*figures) for figures in measures)])
    title = f"{name}: {len(questions)} questions, {len(pairs_of(questions)[0])} pairs"
    return table([title, "MAP", "AvgRec", "MRR"], rows)


def differences(questions, scores):
    """Is "trained" better than the search engine and TF-IDF? MAP × 100, by a paired bootstrap."""
    lines = ["MAP of resampled questions, 95% intervals: trained is"]
    trained = top_ten(questions, scores["trained"])
    for name in (SEARCH_ENGINE, TFIDF):
        figures = 100 * np.array(map_difference(trained, top_ten(questions, scores[name])))
        verdict = "not told apart from"
        if figures[1] > 0:
            verdict = "better than"
        elif figures[2] < 0:
            verdict = "worse than"
        lines.append(f"  {verdict:20}{name} ({with_interval(figures, '+.2f')})")
    return "\n".join(lines)


if __name__ == "__main__":
    main("cqa", "--vectors", nargs="?",
         help="the run's folder; without one, only the others are scored",
         data="folder with the official XML files, or with cqa/; without it the small own set")
