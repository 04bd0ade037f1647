"""Files of SemEval Task 3, subtask B (question–question similarity): XML, gold and submissions."""

import math
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import parse

from ..cli import UserError

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
    """Questions with their labels from an official XML file, or from a .relevancy gold file.

    Raises UserError with file and place.
    """
    path = Path(path)
    questions = _read_xml(path) if path.suffix == ".xml" else _read_gold(path)
    if not questions:
        raise UserError(f"{path}: holds no question; expected XML with OrgQuestion elements, or a "
                        ".relevancy file")
    return questions


def _read_xml(path):
    """An original question is repeated for each related one; the file has an inline DTD."""
    try:
        root = parse(path, forbid_dtd=False, forbid_entities=True, forbid_external=True).getroot()
    except DefusedXmlException as error:
        raise UserError(f"{path}: defines or refers to entities, which are refused ({error}); "
                        "expected the official XML, whose DTD defines none") from None
    except (OSError, ParseError, ValueError, LookupError) as error:
        raise UserError(f"{path}: cannot be read as XML ({error}); expected the official file of "
                        "SemEval Task 3") from None
    questions = {}
    for number, element in enumerate(root.iter("OrgQuestion"), start=1):
        try:
            question = questions.setdefault(element.attrib["ORGQ_ID"], Question(
                element.attrib["ORGQ_ID"], _text(element, "OrgQSubject", "OrgQBody"), []))
            related = element.find("Thread/RelQuestion")
            question.candidates.append(Candidate(
                related.attrib["RELQ_ID"], _rank(related.attrib["RELQ_RANKING_ORDER"]),
                LABELS[related.attrib["RELQ_RELEVANCE2ORGQ"]],
                _text(related, "RelQSubject", "RelQBody")))
        except (KeyError, AttributeError, ValueError) as error:
            raise UserError(f"{path}, OrgQuestion {number}: a part is missing or wrong ({error}); "
                            "expected an ORGQ_ID, a Thread with a RelQuestion, its RELQ_ID, "
                            "RELQ_RANKING_ORDER (1 or more) and "
                            f"RELQ_RELEVANCE2ORGQ ({', '.join(list(LABELS)[:3])})") from None
    return list(questions.values())


def _text(element, *parts):
    """The texts of child elements, joined by a space; an empty one is left out."""
    texts = (" ".join((element.find(part).text or "").split()) for part in parts)
    return " ".join(text for text in texts if text)


def _rank(text):
    rank = int(text)
    if rank < 1:
        raise ValueError(f"rank {rank}")
    return rank


def _read_gold(path):
    """Lines of question, related question, rank, 1/rank and true or false."""
    questions = {}
    for number, (question, related, rank, _, label) in _rows(path):
        try:
            candidate = Candidate(related, _rank(rank), LABELS[label])
        except (KeyError, ValueError):
            raise UserError(f'{path}, line {number}: rank "{rank}" and label "{label}", expected 1 '
                            "or more and true or false") from None
        questions.setdefault(question, Question(question, None, [])).candidates.append(candidate)
    return list(questions.values())


def read_submission(path, questions):
    """A participant's scores, in the order of `questions`: a list of lists of float.

    Lines of question, related question, rank, score and label, separated by white space; only the
    score counts. Raises UserError for lines that are no such scores, and for pairs that are
    missing, doubled or unknown.
    """
    scores = {}
    for number, (question, related, _, score, _) in _rows(path):
        try:
            value = float(score)
        except ValueError:
            value = math.nan
        if math.isnan(value) or (question, related) in scores:
            raise UserError(f'{path}, line {number}: {question} {related} with score "{score}", '
                            "expected a number, and every pair once")
        scores[question, related] = value
    ids = [[(question.id, candidate.id) for candidate in question.candidates]
           for question in questions]
    wanted = set(chain.from_iterable(ids))
    if scores.keys() != wanted:
        pair = min(scores.keys() ^ wanted)
        raise UserError(f"{path}: the pair {' '.join(pair)} is "
                        f"{'missing' if pair in wanted else 'unknown'}; expected a score for each "
                        f"of the {len(wanted)} pairs of the gold file")
    return [[scores[pair] for pair in of_question] for of_question in ids]


def _rows(path):
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as UTF-8 text ({error}); expected a file of "
                        "SemEval Task 3") from None
    for number, line in enumerate(lines, start=1):
        columns = line.split()
        if not columns:
            continue
        if len(columns) != 5:
            raise UserError(f"{path}, line {number}: {len(columns)} columns, expected 5: question, "
                            "related question, rank, score, label")
        yield number, columns
