"""Question ranking: the official files and figures, ties, and reading any XML."""

from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convsim_mini.common.cli import UserError
from convsim_mini.evaluation import cqa
from convsim_mini.evaluation.metrics import (
    average_precision, average_recall, reciprocal_rank, top_of_ranking)
from convsim_mini.evaluation.cqa import Candidate, Question, read as read_questions

TEST = "SemEval2016-Task3-CQA-QL-test.xml"
DEV = "SemEval2016-Task3-CQA-QL-dev.xml"
SEARCH_ENGINE = {DEV: (50, 500, [71.35, 86.11, 76.67]), TEST: (70, 700, [74.75, 88.30, 83.79])}
SUBMISSIONS = {"UH-PRHLT": 76.70, "ConvKN": 76.02, "Kelp": 75.83,
               "SLS": 75.55, "ICL00": 75.11, "SUper_team": 74.82,
               "ECNU": 73.92, "UniMelb": 70.20, "overfitting": 69.68, "QAIIIT": 69.04}


def figures(questions, scores):
    """MAP, AvgRec and MRR × 100, rounded as published."""
    return [round(value, 2) for value, *_ in cqa.figures(questions, scores).values()]


# ---------------------------------------------------------------- the official figures

def columns(path):
    """The columns of a .relevancy file or a submission: question, candidate, rank, score, label."""
    return [line.split() for line in path.read_text().splitlines() if line.strip()]


@pytest.mark.parametrize("name", SEARCH_ENGINE)
def test_the_search_engines_published_figures(data_folder, name):
    questions = read_questions(data_folder / "cqa" / name)
    number, pairs, expected = SEARCH_ENGINE[name]
    assert (len(questions),
            sum(len(question.candidates) for question in questions)) == (number, pairs)
    assert figures(questions, cqa.baselines(None, questions)[cqa.SEARCH_ENGINE]) == expected
    labels = [[question.id, candidate.id, candidate.rank, candidate.relevant]
              for question in questions for candidate in question.candidates]
    official = columns(data_folder / "cqa" / f"{name}.subtaskB.relevancy")
    assert labels == [[question, candidate, int(rank), label == "true"]
                      for question, candidate, rank, _, label in official]


@pytest.mark.parametrize("name", SUBMISSIONS)
def test_the_participants_published_map(data_folder, name):
    questions = read_questions(data_folder / "cqa" / TEST)
    submitted = {(question, candidate): float(score) for question, candidate, _, score, _
                 in columns(data_folder / "cqa/submissions_2016" / f"{name}.txt")}
    scores = [submitted[question.id, candidate.id] for question in questions
              for candidate in question.candidates]
    assert len(submitted) == 700 and figures(questions, scores)[0] == SUBMISSIONS[name]


# ---------------------------------------------------------------- figures by hand

def ranking_scores(relevant):
    """MAP, AvgRec and MRR."""
    return [average_precision(relevant).mean(), average_recall(relevant),
            reciprocal_rank(relevant).mean()]


def test_scores_of_two_short_rankings():
    relevant = np.zeros((2, 11), int)
    relevant[0, [0, 2]] = relevant[1, 1] = 1
    found = np.cumsum(relevant.sum(0)[:10])                        # 1 2 3 3 …
    possible = [2, 3, *[3] * 8]                               # k = 1: 1 for each; then 2 and 1
    expected = [((1 / 1 + 2 / 3) / 2 + 1 / 2) / 2, np.mean(found / possible), (1 + 1 / 2) / 2]
    assert ranking_scores(relevant) == pytest.approx(expected)
    relevant[1, 10] = 2                                       # a perfect order would include them
    possible = [2, 4, *[5] * 8]
    expected[1] = np.mean(found / possible)
    assert ranking_scores(relevant) == pytest.approx(expected)


def test_a_question_without_a_relevant_candidate_counts_as_0():
    relevant = np.zeros((4, 11), int)
    assert ranking_scores(relevant) == [0, 0, 0]
    relevant[0, 0] = True
    assert ranking_scores(relevant) == pytest.approx([1 / 4, 1, 1 / 4])


def test_ties_stay_in_the_gold_files_order_and_ten_count():
    relevant = [True, False, True, False]
    assert top_of_ranking(relevant, [1, 1, 1, 1]).tolist() == [*relevant, *[0] * 7]
    assert top_of_ranking(relevant, [0, 1, 1, 0])[:4].tolist() == [False, True, True, False]
    assert top_of_ranking([True] * 3 + [False] * 9, np.arange(12)).tolist() == [0] * 9 + [1, 2]


# ---------------------------------------------------------------- the model

def test_the_models_row_is_the_cosines_that_encode_gives(encoder):
    questions = cqa.read(cqa.OWN)
    found = cqa.scores(None, questions, lambda texts: 3.0 * encoder.encode(texts))
    expected = [float(encoder.encode(question.text) @ encoder.encode(candidate.text))
                for question in questions for candidate in question.candidates]
    assert found.keys() == {"trained"} and found["trained"] == pytest.approx(expected, abs=1e-5)


def test_cosines_are_those_of_each_question_with_its_own_candidates():
    questions = [
        Question("Q1", "a b", [Candidate("R1", 1, True, "a b"), Candidate("R2", 2, False, "c")]),
        Question("Q2", "c", [Candidate("R1", 1, True, "a"), Candidate("R2", 2, False, "c c")])]
    found = cqa.baselines(None, questions)
    assert found[cqa.TFIDF] == pytest.approx([1, 0, 0, 1])


# ---------------------------------------------------------------- files

def xml(questions):
    """Questions as official XML, in which every candidate repeats its question."""
    parts = ['<?xml version="1.0"?><!DOCTYPE xml [<!ELEMENT xml (OrgQuestion*)>]><xml>']
    for question in questions:
        for candidate in question.candidates:
            parts.append(f"<OrgQuestion ORGQ_ID={quoteattr(question.id)}>"
                         f"<OrgQSubject>{escape(question.text)}</OrgQSubject><OrgQBody/>"
                         f"<Thread><RelQuestion RELQ_ID={quoteattr(candidate.id)} "
                         f'RELQ_RANKING_ORDER="{candidate.rank}" RELQ_RELEVANCE2ORGQ='
                         f'"{"Relevant" if candidate.relevant else "Irrelevant"}">'
                         f"<RelQSubject></RelQSubject><RelQBody>{escape(candidate.text)}</RelQBody>"
                         f"</RelQuestion></Thread></OrgQuestion>")
    return "".join(parts) + "</xml>"


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"),
                max_size=20).map(lambda text: " ".join(text.split()))
questions = st.lists(st.builds(
    Question, st.text("QR_0123456789", min_size=1), texts,
    st.lists(st.builds(Candidate, st.text("QR_0123456789", min_size=1), st.integers(1, 99),
                       st.booleans(), texts), min_size=1, max_size=3)),
    min_size=1, max_size=3, unique_by=lambda question: question.id)


@pytest.mark.parametrize("old, new, message", [
    ('RELQ_RANKING_ORDER="1"', 'RELQ_RANKING_ORDER="x"', "'x'"),
    ('ANCE2ORGQ="Relevant"', 'ANCE2ORGQ="Maybe"', "'Maybe'"),
    ("<RelQSubject></RelQSubject>", "", "'RelQSubject'"),
])
def test_what_is_wrong_with_a_question_is_said(tmp_path, old, new, message):
    both = [Candidate("R1", 2, False, "b"), Candidate("R2", 1, True, "")]
    text = xml([Question("Q1", "a", both)])
    path = tmp_path / "a.xml"
    first, second = text.split("</OrgQuestion>", 1)
    path.write_text(first + "</OrgQuestion>" + second.replace(old, new))
    with pytest.raises(UserError) as error:
        read_questions(path)
    assert str(error.value).startswith(f"{path}, OrgQuestion 2: ") and message in str(error.value)


def test_files_without_labels_or_of_another_task_are_passed_over(tmp_path):
    (tmp_path / "cqa").mkdir()
    for name in ("b-test.xml", "a-dev.xml", "a-dev-input.xml", "a.txt",
                 "a-dev-subtaskA.xml", "a-subtaskA-with-multiline.xml"):
        (tmp_path / "cqa" / name).write_text("")
    found = {name: tmp_path / "cqa" / f"{name}.xml" for name in ("a-dev", "b-test")}
    assert cqa.find(tmp_path) == cqa.find(tmp_path / "cqa") == found
    assert cqa.find(None) == {"built-in set": cqa.OWN}


@given(questions)
def test_whatever_the_texts_they_are_read_as_they_were_written(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("xml") / "a.xml"
    path.write_text(xml(written), encoding="utf-8")
    assert read_questions(path) == written
