"""Picking the true reply: candidates, vectors, ranks, the weight of words, messages."""

import dataclasses

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.core.model import embed, response_forward
from convsim_mini.evaluation import __main__ as evaluation, response
from convsim_mini.evaluation.baselines import bm25_documents
from convsim_mini.inference.tfidf import document_frequency, term_counts, tfidf
from convsim_mini.training.start import initial_model
from convsim_mini.training.run import load_run

from conftest import command


@pytest.fixture(scope="module")
def run(trained):
    """The trained Run; tests must not change it."""
    return load_run(trained[0])


@pytest.fixture(scope="module")
def test_set(run):
    """The TestSet of the run's corpus."""
    return response.read(response.find(None, run)["own pairs"])


# ---------------------------------------------------------------- candidates and ranks

def test_too_few_different_replies_are_told(corpus):
    with pytest.raises(UserError, match="99 wrong responses .*; give --pairs more"):
        response.drawn(corpus.test._replace(keys=0 * corpus.test.keys))


def ranks_by_hand(u, v, candidates):
    """A loop over the candidates of each input."""
    return [1 + sum(u[k] @ v[other] >= u[k] @ v[k] for other in row[1:])
            for k, row in enumerate(candidates)]


# ---------------------------------------------------------------- what is ranked

def test_replies_are_ranked_by_u_and_the_response_networks_v(run, test_set):
    split, pairs = test_set.corpus.test, test_set.pairs
    u, v = (embed(run.model, split.sentences(2 * pairs + side)) for side in (0, 1))
    answered, _ = response_forward(run.model, v)
    assert np.abs(answered - v).max() > 0.05
    expected = ranks_by_hand(u.astype(np.float64), answered.astype(np.float64),
                             test_set.candidates)
    assert (response.scores(run, test_set)["trained"] == expected).mean() > 0.99


def test_the_weights_of_words_are_fitted_on_train_alone(run, test_set):
    corpus, pairs = test_set.corpus, test_set.pairs
    rng = np.random.default_rng(0)
    other = corpus.train._replace(ids=np.where(                # frequencies other than test's
        rng.random(len(corpus.train.ids)) < 0.5, 7, corpus.train.ids).astype(np.int32))
    corpus = corpus._replace(train=other)
    size = corpus.vocabulary.size
    total, df = document_frequency(other.sentences(np.arange(2 * other.pairs)), size)
    assert total == 2 * other.pairs and df[7] > 0.9 * total
    inputs, replies = response.sides(corpus.test, pairs)
    weighted = [tfidf(packed, total, df) for packed in (inputs, replies)]
    for found, expected in zip(response.tfidf_vectors(corpus, corpus.test, pairs), weighted):
        assert abs(found - expected).max() < 1e-6
    dense = [some.toarray() for some in weighted]
    found = response.baselines(run, test_set._replace(corpus=corpus))
    agree = found["TF-IDF cosine"] == ranks_by_hand(*dense, test_set.candidates)
    assert agree.mean() > 0.98                                # except ties by rounding
    documents = bm25_documents(replies, total, df).toarray()
    expected = ranks_by_hand(term_counts(inputs, size).toarray(), documents, test_set.candidates)
    assert (found["BM25"] == expected).mean() > 0.98


def test_words_weigh_what_is_best_on_dev_whatever_test_would_like(run, test_set, monkeypatch):
    """On dev words know the replies and on test the opposite, or the other way round."""
    truth = np.eye(1, 100)                                    # column 0 is the true reply

    def knowing(split):
        def pair_of(source, asked, pairs):
            return split, asked.pairs == getattr(test_set.corpus, split or "dev").pairs
        return pair_of

    def scored(split, knows, candidates, dot_products):
        noise = np.random.default_rng(split is None).standard_normal(candidates.shape)
        if split is None:
            return truth + 0.6 * noise
        return np.repeat(truth if knows else -truth, len(candidates), axis=0)

    monkeypatch.setattr(response, "candidate_scores", scored)
    monkeypatch.setattr(response, "vectors", knowing(None))
    right = {}
    for split in ("dev", "test"):
        monkeypatch.setattr(response, "tfidf_vectors", knowing(split))
        for name, ranks in response.scores(run, test_set).items():
            right[split, name] = 100 * (ranks == 1).mean()
    alone = right["dev", "trained"]
    assert right["dev", "trained + 2.0 TF-IDF"] < 10 < alone
    _, told = [*right][-1]
    assert told in ("trained + 0.0 TF-IDF", "trained + 0.1 TF-IDF")
    assert alone <= right["test", told] < 50                  # 2.0 would reach 99 on test


@pytest.mark.parametrize("one, other, ahead", [
    # right at the same 200 of 400 inputs and 15 more: certain, because the inputs are paired
    (np.repeat([1, 2], [215, 185]), np.repeat([1, 2], [200, 200]), True),
    # right at 10 more, but at mostly different inputs: uncertain
    (np.repeat([1, 2], [210, 190]), np.repeat([2, 1], [200, 200]), False)])
def test_who_is_ahead_is_decided_by_the_paired_interval_of_right_answers(one, other, ahead):
    difference, low, high = response.lead(None, one, other)
    assert difference == pytest.approx(100 * ((one == 1).mean() - (other == 1).mean()))
    assert (low > 0) == ahead and high > 0


def test_the_weight_of_words_in_a_search_is_told_and_that_replies_recur(test_set):
    for weight, repeated in ((0.3, 0.1), (0.0, 0.5)):
        rows = {"trained": None, f"trained + {weight} TF-IDF": None}
        keys = np.arange(2_000).reshape(1_000, 2)
        keys[:int(1_000 * repeated), 1] = 7                   # of all pairs, not only those tested
        split = test_set.corpus.test._replace(keys=keys)
        some = test_set._replace(corpus=test_set.corpus._replace(test=split),
                                 pairs=np.arange(int(1_000 * repeated / 2), 1_000))
        text = response.note("test", some, rows)
        assert f"--words {weight:g}: " in text
        assert ("33% of these replies answer several" in text) == (repeated == 0.5)
        assert ("P@10 says more" in text) == (repeated == 0.5)


def test_a_run_that_goes_on_is_compared_with_the_one_it_started_from(run, test_set, trained):
    second = run._replace(config=dataclasses.replace(run.config, init=str(trained[0])))
    name, model = response.before_training(second, test_set.corpus)
    assert name == f"before fine-tuning: {run.name}"
    assert all((model.params[key] == p).all() for key, p in run.model.params.items())
    gone = run._replace(config=dataclasses.replace(run.config, init="gone"))
    kept = run._replace(initial=run.model)                    # as `train` gives it
    for one, expected in ((gone, initial_model(run.config, test_set.corpus)), (kept, run.model)):
        name, model = response.before_training(one, test_set.corpus)
        assert name == "before training"
        assert all((model.params[key] == p).all() for key, p in expected.params.items())


# ---------------------------------------------------------------- the command for all evaluations

def test_a_run_is_evaluated_on_what_is_there_and_the_rest_is_named(run_copy, tmp_path, capsys):
    done = command("evaluation", run_copy, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for title in ("Picking the true reply among 100", "STS built-in set",
                  "built-in set: 10 questions"):
        assert done.stdout.count(title) == 1
    assert f"\nnli: not measured. {run_copy}: was trained without NLI; continue" in done.stdout
    assert "\nsenteval: not measured. --data is missing" in done.stdout
    evaluation.main([str(run_copy), "--on", "sts", "cqa", "--data", str(tmp_path)])
    sts_line, _, cqa_line, _ = capsys.readouterr().out.splitlines()
    assert sts_line.startswith(f"sts: not measured. {tmp_path}: lacks sts-train.csv")
    assert cqa_line.startswith(f"cqa: not measured. {tmp_path}: lacks *.xml")
