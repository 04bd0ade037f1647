"""Files of SemEval Task 3, subtask B (question–question similarity): XML, gold and submissions."""

import math
from pathlib import Path
from typing import NamedTuple

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import ParseError, parse

from ..cli import UserError, positive_int, user_errors
from .task_files import read_rows

NAME = "SemEval Task 3"
COLUMNS = "question, related question, rank, score, label"
LABELS = {"PerfectMatch": True, "Relevant": True, "Irrelevant": False, "true": True, "false": False}


class Candidate(NamedTuple):
    """A related question. rank: the search engine's, from 1; text: None in a file of ids alone."""

    id: str
    rank: int
    relevant: bool
    text: str | None = None


class Question(NamedTuple):
    """An original question and the related ones that a search engine found, in the file's order."""

    id: str
    text: str | None
    candidates: list


def read_questions(path):
    """The Questions in an official XML or .relevancy file. Raises UserError with file and place."""
    path, questions = Path(path), {}
    for question, candidate in (_xml_pairs if path.suffix == ".xml" else _gold_pairs)(path):
        questions.setdefault(question.id, question).candidates.append(candidate)
    if not questions:
        raise UserError(f"{path}: holds no question; expected a file of {NAME}, XML or .relevancy")
    return list(questions.values())


def _xml_pairs(path):
    """Yield each related question behind its original one, which the file repeats every time."""
    with (user_errors(f"{path}: cannot be read as XML", f"expected a file of {NAME}",
                      (OSError, ParseError, ValueError, LookupError)),
          user_errors(f"{path}: defines or refers to entities, which are refused",
                      "expected the official XML, whose DTD defines none", DefusedXmlException)):
        root = parse(path).getroot()    # accepts the file's inline DTD, refuses entities
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
        yield question, candidate


def _text(element, *parts):
    """The texts of child elements, joined by a space; an empty one is left out."""
    return " ".join(word for part in parts for word in (element.find(part).text or "").split())


def _gold_pairs(path):
    """Yield each related question behind its original one."""
    for number, (question, related, rank, _, label) in read_rows(path, NAME, COLUMNS):
        try:
            candidate = Candidate(related, positive_int(rank), LABELS[label])
        except (KeyError, ValueError):
            raise UserError(f'{path}, line {number}: rank "{rank}" and label "{label}", expected '
                            "1 or more and true or false") from None
        yield Question(question, None, []), candidate


def read_submission(path, questions):
    """A participant's scores, in the order of `questions`: a list of lists of float.

    Raises UserError for lines that hold none, and for pairs missing, doubled or unknown.
    """
    scores = {}
    for number, (question, related, _, score, _) in read_rows(path, NAME, COLUMNS):
        try:
            value = float(score)
        except ValueError:
            value = math.nan
        if math.isnan(value) or (question, related) in scores:
            raise UserError(f'{path}, line {number}: {question} {related} with score "{score}", '
                            "expected a number, and every pair once")
        scores[question, related] = value
    pairs = [[(question.id, candidate.id) for candidate in question.candidates]
             for question in questions]
    wanted = {pair for of_question in pairs for pair in of_question}
    if scores.keys() != wanted:
        pair = min(scores.keys() ^ wanted)
        raise UserError(f"{path}: the pair {' '.join(pair)} is "
                        f"{'missing' if pair in wanted else 'unknown'}; expected a score for each "
                        f"of the {len(wanted)} pairs of the gold file")
    return [[scores[pair] for pair in of_question] for of_question in pairs]
