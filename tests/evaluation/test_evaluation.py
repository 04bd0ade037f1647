"""Candidates and ranks, correlations and intervals against SciPy, STS files, lexical baselines."""

import csv
import gzip
import math
import os
import shutil
import subprocess
import sys
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convsim_mini.common.cli import UserError
from convsim_mini.core.pairs import Split
from convsim_mini.core.packed import Packed
from convsim_mini.core.text import Vocabulary, tokenize
from convsim_mini.evaluation import cqa, metrics, response, sts, sts_years
from convsim_mini.evaluation.baselines import (
    bag_cosine,
    bag_cosines,
    bm25_documents,
    fitted_on_train,
    frequency_weight,
    term_counts,
    tfidf,
)
from convsim_mini.inference.sentence_encoder import load
from convsim_mini.training.initial import initial_model
from convsim_mini.training.run import load_run

from conftest import ROOT, command


def pack(*sentences):
    """Lists of ids to a Packed."""
    offsets = np.cumsum([0, *map(len, sentences)])
    return Packed(np.array([i for sentence in sentences for i in sentence], np.int32), offsets)


def split_with_responses(keys):
    """A Split of one-word sentences whose responses have these text keys."""
    n = len(keys)
    keys = np.stack([np.arange(n), np.asarray(keys)], axis=1).astype(np.uint64)
    return Split(np.ones(2 * n, np.int32), np.arange(2 * n + 1), keys)


def unit_vectors(rng, *shape):
    x = rng.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


# ---------------------------------------------------------------- candidates and ranks

@pytest.mark.parametrize("queries", [10_000, 150])
def test_candidates_are_the_truth_and_99_others_of_different_text(queries):
    split = split_with_responses(np.arange(700) // 3)         # every response stands three times
    pairs, candidates = response.drawn(split, queries)
    assert len(pairs) == len(set(pairs.tolist())) == min(queries, 700)
    assert candidates.shape == (len(pairs), 100)
    assert candidates[:, 0].tolist() == list(range(len(pairs)))
    texts = split.keys[pairs, 1][candidates]                  # (n, 100)
    assert (texts[:, 1:] != texts[:, :1]).all()
    assert all(len(set(row)) == 100 for row in candidates.tolist())


def test_candidates_are_the_same_every_time_and_drawn_from_all(corpus):
    pairs, candidates = response.drawn(corpus.test)
    again = response.drawn(corpus.test)
    assert pairs.tolist() == again[0].tolist() and candidates.tolist() == again[1].tolist()
    assert set(candidates[:, 1:].ravel().tolist()) == set(range(corpus.test.pairs))


@pytest.mark.parametrize("keys", [np.arange(99), np.maximum(np.arange(120), 22), np.zeros(1_000)])
def test_too_few_different_responses_are_a_user_error(keys):
    with pytest.raises(UserError, match="99 wrong responses"):
        response.drawn(split_with_responses(keys))


@pytest.mark.parametrize("keys", [np.arange(100), np.maximum(np.arange(120), 20)])
def test_just_enough_different_responses_will_do(keys):
    pairs, candidates = response.drawn(split_with_responses(keys))
    texts = keys[pairs][candidates]
    assert (texts[:, 1:] != texts[:, :1]).all()


def test_ties_count_against_the_truth():
    scores = np.array([[1.0, 0, 0, 0], [0, 0, 0, 0], [0.5, 0.5, 1, 0], [-1, 0, 1, 2]])
    assert metrics.true_ranks(scores).tolist() == [1, 4, 3, 4]


def test_a_scorer_that_knows_nothing_ranks_every_truth_last():
    split = split_with_responses(np.arange(600))
    _, candidates = response.drawn(split)
    zeros = np.zeros((600, 8))
    assert set(response.ranks_of_truth(zeros, zeros, candidates)) == {100}


def test_a_perfect_scorer_has_a_precision_of_100_and_a_random_one_of_n():
    rng = np.random.default_rng(0)
    _, candidates = response.drawn(split_with_responses(np.arange(3_000)))
    u, v = unit_vectors(rng, 2, 3_000, 16)
    perfect, at_random = (response.ranks_of_truth(u, u, candidates),
                          response.ranks_of_truth(u, v, candidates))
    assert at_random.shape == (3_000,)
    for n in response.N:
        assert response.precision(perfect, n)[0] == 100
        share, low, high = response.precision(at_random, n)
        # 5 standard deviations
        assert share == pytest.approx(n, abs=5 * math.sqrt(n * (100 - n) / 3_000))
        assert low < share < high


def test_ranks_are_those_of_a_loop_over_the_candidates():
    rng = np.random.default_rng(0)
    _, candidates = response.drawn(split_with_responses(np.arange(600)))
    u, v = rng.integers(-3, 4, (2, 600, 3)).astype(float)     # small integers: many ties
    expected = [1 + sum(u[i] @ v[j] >= u[i] @ v[i] for j in row[1:])
                for i, row in enumerate(candidates)]
    assert response.ranks_of_truth(u, v, candidates).tolist() == expected


# ---------------------------------------------------------------- correlations and intervals

samples = st.lists(st.tuples(*2 * [st.integers(-20, 20).map(lambda n: n / 4)]), min_size=4,
                   max_size=40).filter(lambda xy: all(len(set(side)) > 1 for side in zip(*xy)))


@given(samples)
def test_correlations_and_their_intervals_are_the_formulas(xy):
    x, y = np.array(xy).T

    def by_hand(x, y):
        x, y = x - x.mean(), y - y.mean()
        return x @ y / math.sqrt((x @ x) * (y @ y))

    def ranks(x):
        return np.array([(x < value).sum() + ((x == value).sum() + 1) / 2 for value in x])

    r = metrics.pearson(x, y)
    assert r == pytest.approx(by_hand(x, y), abs=1e-12)
    assert metrics.spearman(x, y) == pytest.approx(by_hand(ranks(x), ranks(y)), abs=1e-12)
    if abs(r) < 1 - 1e-9:                                     # the interval is [r, r] there
        z, half = math.atanh(r), 1.959964 / math.sqrt(len(x) - 3)
        assert metrics.pearson_interval(x, y) == pytest.approx(
            (math.tanh(z - half), math.tanh(z + half)), abs=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("x", [[], [1], [1, 1], [1, 1, 1], np.ones(5), np.full(5, 0.1)])
def test_samples_that_are_constant_or_too_short_have_no_correlation_and_no_interval(x):
    x, y = np.array(x, float), np.arange(float(len(x)))
    for one, other in ((x, y), (y, x)):
        assert math.isnan(metrics.pearson(one, other)) and math.isnan(metrics.spearman(one, other))
        assert np.isnan(metrics.pearson_interval(one, other)).all()


@pytest.mark.parametrize("hits, n", [(0, 10), (10, 10), (1, 1), (3, 7), (50, 100), (1, 10_000),
                                     (7_777, 10_000)])
def test_the_interval_of_a_share_is_wilsons(hits, n):
    p, z = hits / n, 1.959963985
    centre, half = (p + z * z / (2 * n)), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    expected = [100 * p, *(100 * end / (1 + z * z / n) for end in (centre - half, centre + half))]
    assert metrics.per_cent(np.arange(n) < hits) == pytest.approx(expected, abs=1e-5)


# ---------------------------------------------------------------- STS files

def test_official_files_keep_all_their_rows(data_folder):
    # Read as quoted CSV, rows that begin with a quotation mark swallow those after them.
    for name, rows, rows_if_quoted in (("train", 5_749, 5_711), ("dev", 1_500, 1_470)):
        path = data_folder / "stsbenchmark" / f"sts-{name}.csv"
        assert len(sts.read(path).labels) == rows
        with open(path, encoding="utf-8", newline="") as file:
            assert len(list(csv.reader(file, delimiter="\t"))) == rows_if_quoted


@pytest.mark.parametrize("name, genres", [
    ("train", {"captions": 2_000, "forums": 450, "news": 3_299}),
    ("dev", {"captions": 625, "forums": 375, "news": 500}),
])
def test_official_files_have_the_genres_that_are_published(data_folder, name, genres):
    assert Counter(
        sts.read(data_folder / "stsbenchmark" / f"sts-{name}.csv").genres.tolist()) == genres


def test_the_own_set_has_120_pairs_of_three_genres():
    own = sts.read(sts.OWN)
    assert Counter(own.genres.tolist()) == {"captions": 40, "forums": 40, "news": 40}
    assert own.labels.min() < 0.5 and own.labels.max() > 4.5
    assert len(set(zip(own.sentences1, own.sentences2))) == 120


ROW = "main-news\tMSRpar\t2012\t0001\t4.5\tA quote \" here\tAnother one"


def test_columns_after_the_seventh_windows_line_ends_and_quotation_marks_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(
        f'{ROW}\r\n{ROW}\tlicence\tsource\n\nmain-captions\ta\t\t\t0\t"x\tNEL\x85 "" y'.encode())
    found = sts.read(path)
    assert found.genres.tolist() == ["news", "news", "captions"]
    assert found.labels.tolist() == [4.5, 4.5, 0]
    assert found.sentences1 == ['A quote " here', 'A quote " here', '"x']
    assert found.sentences2 == ["Another one", "Another one", 'NEL\x85 "" y']


@pytest.mark.parametrize("text, where, what", [
    ("", "", "empty"),
    ("\n\n", "", "empty"),
    (f"{ROW}\n\nmain-news\t1\t2\n", ", line 3", "3 columns, expected 7"),
    (f"genre\tfile\tyear\tid\tscore\ta\tb\n{ROW}", ", line 1", '"genre"'),
    (f"{ROW}\n{ROW.replace('4.5', '5.5')}", ", line 2", '"5.5"'),
    (ROW.replace("4.5", "-1"), ", line 1", '"-1"'),
    (ROW.replace("4.5", "nan"), ", line 1", '"nan"'),
    (ROW.replace("4.5", ""), ", line 1", "score"),
    (ROW.replace("main-news", "main-songs"), ", line 1", '"main-songs"'),
    (ROW.replace("\t", ","), ", line 1", "1 columns"),
])
def test_a_bad_sts_file_is_a_user_error_that_names_file_and_line(tmp_path, text, where, what):
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        sts.read(path)
    assert f"{path}{where}: " in str(error.value) and what in str(error.value)


def test_an_sts_file_that_is_missing_a_folder_or_no_utf8_is_a_user_error_that_names_it(tmp_path):
    (tmp_path / "latin.csv").write_bytes(ROW.replace("quote", "caf\xe9").encode("latin-1"))
    for path in (tmp_path, tmp_path / "none.csv", tmp_path / "latin.csv"):
        with pytest.raises(UserError) as error:
            sts.read(path)
        assert str(path) in str(error.value)


def test_sts_files_are_found_in_the_folder_or_below_it_and_else_it_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="sts-dev.csv") as error:
        sts.find(tmp_path, None)
    assert str(tmp_path) in str(error.value)
    folder = tmp_path / "stsbenchmark"
    folder.mkdir()
    (folder / "sts-dev.csv").write_text(ROW)
    assert sts.find(tmp_path, None) == sts.find(folder, None) == {"dev": folder / "sts-dev.csv"}
    assert sts.find(None, None) == {"own set": sts.OWN}


# ---------------------------------------------------------------- similarity

def test_angular_similarity_is_0_for_equal_and_minus_pi_for_opposite_vectors():
    u = unit_vectors(np.random.default_rng(0), 50, 20)
    # In float32 a unit vector's square is not exactly 1, and the arc is steep there.
    for dtype, tolerance in ((np.float64, 1e-7), (np.float32, 2e-3)):
        v = u.astype(dtype)
        np.testing.assert_allclose(sts.angular_similarity(v, v), 0, atol=tolerance)
        np.testing.assert_allclose(sts.angular_similarity(v, -v), -np.pi, atol=tolerance)
    across = unit_vectors(np.random.default_rng(1), 50, 20)
    across -= (across * u).sum(axis=1, keepdims=True) * u
    np.testing.assert_allclose(sts.angular_similarity(u, across), -np.pi / 2, atol=1e-12)


def test_the_score_ends_at_5_and_0():
    assert sts.score_0_to_5(np.array([0.0, -np.pi / 2, -np.pi])).tolist() == [5, 2.5, 0]


def test_correlations_are_those_of_each_genre():
    rng = np.random.default_rng(0)
    genres = np.repeat(["news", "captions", "forums"], 20)
    labels, similarity = rng.random((2, 60))
    found = sts.correlations(similarity, sts.Sts(genres, labels, [""] * 60, [""] * 60))
    assert found["all"][0] == pytest.approx(np.corrcoef(similarity, labels)[0, 1])
    for genre in set(genres):
        some = genres == genre
        assert found[genre][0] == pytest.approx(np.corrcoef(similarity[some], labels[some])[0, 1])


@pytest.mark.filterwarnings("error")
def test_one_genre_alone_is_reported_without_a_warning():
    one = sts.Sts(np.repeat("news", 5), np.arange(5.0), ["a"] * 5, ["b"] * 5)
    assert "news 5" in sts.score_table("dev", one, {"some model": np.array([0.0, 1, 3, 2, 4])})


# ---------------------------------------------------------------- lexical baselines

@pytest.mark.parametrize("one, other, cosine", [
    ("the cat", "The CAT", 1),
    ("the cat", "a dog", 0),
    ("the cat sat", "the cat", 2 / math.sqrt(6)),
    ("the the cat", "the cat", 1),                            # binary: repetitions do not count
    ("", "the cat", 0),
    ("", "", 0),
])
def test_bag_cosine(one, other, cosine):
    assert bag_cosine(one, other) == pytest.approx(cosine)


def test_a_weighted_bag_cosine_is_that_of_weighted_vectors():
    weight = {"the": 0.1, "cat": 2.0, "sat": 1.0, "dog": 3.0}
    expected = (0.1**2 + 1) / math.sqrt((0.1**2 + 4 + 1) * (0.1**2 + 9 + 1))
    assert bag_cosine("the cat sat", "the dog sat", weight.get) == pytest.approx(expected)


def test_the_frequency_weight_falls_from_1_with_the_probability():
    weight = frequency_weight(Vocabulary(["the", "cat"], [900, 1], 1_000, 5), a=1e-3)
    assert weight("the") == pytest.approx(1e-3 / (1e-3 + 0.9))
    assert weight("cat") == pytest.approx(0.5)
    assert weight("unheard") == 1


def test_lexical_baselines_reach_the_known_figures_on_sts_dev(data_folder):
    counts = Counter()
    for path in sorted((data_folder / "conversations").glob("*.tsv.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in islice(lines, 5_000):
                counts.update(tokenize(line))
    dev = sts.read(data_folder / "stsbenchmark" / "sts-dev.csv")
    left = np.arange(len(dev.labels))
    found = bag_cosines(sts.texts_of(dev), left, len(left) + left,
                        Vocabulary.from_counts(counts, 50_000, 1))
    binary, weighted = (100 * metrics.pearson(similarity, dev.labels)
                        for similarity in found.values())
    assert binary == pytest.approx(63.0, abs=1)
    assert weighted == pytest.approx(76.0, abs=2)


def random_documents(seed, documents=40, words=30):
    rng = np.random.default_rng(seed)
    return pack(*(rng.integers(words, size=rng.integers(1, 12)).tolist() for _ in range(documents)))


def frequencies(packed, words=30):
    """Document frequencies by counting: N, df."""
    sentences = [set(packed.ids[a:b].tolist()) for a, b in zip(packed.offsets, packed.offsets[1:])]
    return len(sentences), np.array([sum(word in sentence for sentence in sentences)
                                     for word in range(words)])


def test_term_counts_counts_and_leaves_its_input_as_it_is():
    # SciPy sums duplicates in place: it once reordered the ids of the corpus.
    packed = pack([3, 1, 3, 0, 3], [2], [1, 1])
    ids, offsets = packed.ids.copy(), packed.offsets.copy()
    assert term_counts(packed, 4).toarray().tolist() == [[1, 1, 0, 3], [0, 0, 1, 0], [0, 2, 0, 0]]
    assert packed.ids.tolist() == ids.tolist() and packed.offsets.tolist() == offsets.tolist()


def test_document_frequencies_count_sentences_of_train(corpus):
    packed = Packed(corpus.train.ids, corpus.train.offsets)
    sentences, df = fitted_on_train(corpus.train, corpus.vocabulary.size)
    expected = frequencies(packed, corpus.vocabulary.size)
    assert sentences == expected[0] == 2 * corpus.train.pairs
    assert df.tolist() == expected[1].tolist()


def test_tfidf_rows_have_unit_length_and_follow_the_formula():
    packed = random_documents(0)
    sentences, df = frequencies(packed)
    rows = tfidf(packed, sentences, df).toarray()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    for b, row in enumerate(rows):
        expected = np.zeros(30)
        for word, tf in Counter(
                packed.ids[packed.offsets[b]:packed.offsets[b + 1]].tolist()).items():
            expected[word] = (1 + math.log(tf)) * math.log((1 + sentences) / (1 + df[word]))
        np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=1e-6)


def test_a_word_found_everywhere_weighs_nothing_and_leaves_no_nan():
    packed = pack([0], [0, 1], [0, 0])
    rows = tfidf(packed, *frequencies(packed, 2)).toarray()
    assert np.abs(rows).tolist() == [[0, 0], [0, 1], [0, 0]]


def test_bm25_is_the_formula_in_a_double_loop():
    documents, queries = random_documents(1), random_documents(2, documents=10)
    sentences, df = frequencies(documents)
    scores = (term_counts(queries, 30) @ bm25_documents(documents, sentences, df).T).toarray()
    mean_length = len(documents.ids) / sentences
    for q in range(10):
        for d in range(sentences):
            document = documents.ids[documents.offsets[d]:documents.offsets[d + 1]].tolist()
            expected = 0
            for word in queries.ids[queries.offsets[q]:queries.offsets[q + 1]].tolist():
                tf, idf = (document.count(word),
                           math.log(1 + (sentences - df[word] + 0.5) / (df[word] + 0.5)))
                expected += (idf * tf * 2.2
                             / (tf + 1.2 * (0.25 + 0.75 * len(document) / mean_length)))
            assert scores[q, d] == pytest.approx(expected, rel=1e-5)


# ---------------------------------------------------------------- the command of them all

def test_a_run_is_evaluated_on_what_is_there_and_the_rest_is_named(run_copy, tmp_path):
    done = command("evaluation", run_copy, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for title in ("Picking the true reply among 100", "STS own set", "own set: 10 questions"):
        assert done.stdout.count(title) == 1
    nli_line, years_line, senteval_line = done.stdout.splitlines()[-3:]
    assert years_line.startswith("sts_years: not measured. --data is missing")
    assert nli_line.startswith(f"nli: not measured. {run_copy}: was trained without NLI; train on")
    assert senteval_line.startswith("senteval: not measured. --data is missing")
    done = command("evaluation", run_copy, "--on", "sts", "cqa", "--data", tmp_path, cwd=tmp_path)
    sts_line, cqa_line = done.stdout.splitlines()
    assert (done.returncode == 0
            and sts_line.startswith(f"sts: not measured. {tmp_path}: holds no sts-train.csv"))
    assert cqa_line.startswith(f"cqa: not measured. {tmp_path}: holds no *.xml")


def test_words_weigh_what_is_best_on_dev_whatever_test_would_like(trained, monkeypatch):
    """On dev one kind of words knows the replies and the other nothing; on test it is reversed."""
    run = load_run(trained[0])
    choices = response.read(response.find(None, run)["test"])
    truth = np.eye(1, 100)                                    # the true reply stands in column 0

    def knowing(split):
        def extra(source, asked, pairs, candidates):
            if asked.pairs == getattr(choices.corpus, split).pairs:
                return np.repeat(truth, len(candidates), axis=0)
            return 3 * np.random.default_rng(0).standard_normal(candidates.shape)
        return extra

    monkeypatch.setattr(response, "candidate_scores", lambda u, v, candidates, dot_products: (
        truth + 0.6 * np.random.default_rng(1).standard_normal(candidates.shape)))
    monkeypatch.setattr(response, "word_scores", knowing("dev"))
    monkeypatch.setattr(response, "tfidf_scores", knowing("test"))
    found = response.scores(run, choices)
    assert [*found] == ["trained", "trained + 2.0 words", "trained + 0.1 TF-IDF cosine"]
    alone, words, tfidf = (100 * (ranks == 1).mean() for ranks in found.values())
    assert words < 10 < alone < tfidf < 50                    # 2.0 of TF-IDF would have 99 on test


@pytest.mark.parametrize("run, tfidf, said", [
    # right at the same 200 of 400 inputs and at 15 more: certain because the inputs are paired
    (np.repeat([1, 2], [215, 185]), np.repeat([1, 2], [200, 200]),
     "The run is better than words alone: P@1 +3.8 [+1.9, +5.6]; together they have "
     "75.0, and search uses both."),
    (np.repeat([1, 2], [200, 200]), np.repeat([1, 2], [200, 200]),
     "Words alone are as good here (P@1: TF-IDF 50.0 [45.1, 54.9], this run 50.0): together "
     "they have 75.0, and search uses both."),
    # right at 10 more, but mostly at others: not certain
    (np.repeat([1, 2], [210, 190]), np.repeat([2, 1], [200, 200]), "Words alone are as good here"),
    (np.repeat([1, 9], [100, 300]), np.repeat([1, 2], [200, 200]), "Words alone are as good here"),
    (np.repeat([2, 3], [300, 100]), np.full(400, 90), "Words alone are as good here")])
def test_the_verdict_is_by_the_paired_interval_of_right_answers(run, tfidf, said):
    both = np.repeat([1, 5], [300, 100])
    rows = {"trained": run, "trained + 0.3 words": both, "trained + 0.2 TF-IDF cosine": tfidf}
    assert response.verdict(rows, tfidf).startswith(said)


@pytest.mark.parametrize("useless, weight", [("vectors", 2.0), ("tfidf_vectors", 0.1)])
def test_words_count_as_much_beside_the_encoder_as_they_help_on_dev(
        trained, monkeypatch, useless, weight):
    rng = np.random.default_rng(0)

    def noise(owner, split, pairs):
        return 0.42 * rng.standard_normal((2, len(pairs), 8))

    def perfect(owner, split, pairs):
        x = np.random.default_rng(1).standard_normal((len(pairs), 64))
        return [x / np.linalg.norm(x, axis=1, keepdims=True)] * 2

    for name in ("vectors", "tfidf_vectors"):
        monkeypatch.setattr(response, name, noise if name == useless else perfect)
    run = load_run(trained[0])
    found = response.scores(run, response.read(response.find(None, run)["test"]))
    alone, both = (100 * (found[row] == 1).mean()
                   for row in ("trained", f"trained + {weight} TF-IDF cosine"))
    assert both > 60 and (alone > 60) == (useless != "vectors")


def test_another_model_is_scored_by_the_same_functions(trained):
    run = load_run(trained[0])
    choices = response.read(response.find(None, run)["test"])
    untrained = run._replace(model=initial_model(run.config, choices.corpus))
    expected = response.baselines(run, choices)["the same, untrained"]
    assert (response.scores(untrained, choices)["trained"] == expected).all()
    for task in (response, sts, cqa):
        (source,) = task.find(None, run).values()
        dataset = task.read(source)
        one, other = (np.concatenate(task.scores(which, dataset)["trained"], axis=None)
                      for which in (run, untrained))
        assert one.shape == other.shape and (one != other).any()


def test_rows_with_words_are_the_cosines_of_encode(trained):
    run, own, encoder = load_run(trained[0]), sts.read(sts.OWN), load(trained[0])
    expected = (encoder.encode(own.sentences1) * encoder.encode(own.sentences2)).sum(axis=1)
    for task, row in ((sts, "trained, all but the top + words"), (sts_years, "as encode gives it")):
        found = task.scores(run, own)
        np.testing.assert_allclose(found[row], expected, rtol=0, atol=1e-5)
        learned = np.cos(sts.similarity(run.model, run.vocabulary, own))
        assert np.abs(found[row] - learned).max() > 0.1


TOY = """'''How long are its texts?'''
from pathlib import Path
from .command import main

def find(data, run):
    return {path.stem: path for path in Path(data).glob("*.toy")}

def read(path):
    return path.read_text().splitlines()

def scores(run, texts):
    return {"trained": run.vocabulary.encode(texts).lengths}

def baselines(run, texts, vectors=None):
    return {"characters": [len(text) for text in texts]}

def summary(name, texts, scores, baselines):
    return f"{name} {[list(map(int, row)) for row in (scores | baselines).values()]}"

if __name__ == "__main__":
    main("toy", data="folder of *.toy")
"""


def test_a_new_evaluation_is_one_file_and_one_name_in_a_list(trained, tmp_path):
    package = shutil.copytree(ROOT / "convsim_mini", tmp_path / "convsim_mini")
    (package / "evaluation" / "toy.py").write_text(TOY)
    listed = package / "evaluation" / "__init__.py"
    listed.write_text(listed.read_text().replace("EVALUATIONS = {",
                                                 'EVALUATIONS = {"toy": "a toy",'))
    (tmp_path / "some.toy").write_text("one two\nthree")
    for line in (["evaluation", "--on", "toy"], ["evaluation.toy"]):
        done = subprocess.run([sys.executable, "-m", f"convsim_mini.{line[0]}", trained[0],
                               "--data", tmp_path, *line[1:]],
                              cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(tmp_path)})
        assert ((done.returncode, done.stdout.strip(), done.stderr)
                == (0, "some [[2, 1], [7, 5]]", ""))
