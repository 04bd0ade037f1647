"""STS: the official files and their traps, the years, similarity, messages."""

import csv
from collections import Counter

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.data.labelled import DataSet, find_files
from convsim_mini.evaluation import sts
from convsim_mini.evaluation.metrics import correlation, pearson, spearman
from convsim_mini.evaluation.results import measured
from convsim_mini.inference.sentence_encoder import encoder_of
from convsim_mini.evaluation.sts import Sts
from convsim_mini import load
from convsim_mini.training.run import load_run, save_tuned

ROW = "main-news\tMSRpar\t2012\t0001\t4.5\tA quote \" here\tAnother one"


# ---------------------------------------------------------------- the benchmark's files

@pytest.mark.parametrize("name, rows_if_quoted, genres", [
    ("train", 5_711, {"captions": 2_000, "forums": 450, "news": 3_299}),
    ("dev", 1_470, {"captions": 625, "forums": 375, "news": 500}),
])
def test_official_files_keep_all_their_rows(data_folder, name, rows_if_quoted, genres):
    path = sts.find(data_folder)[name]
    found = sts.read(path)
    assert Counter(found.genres.tolist()) == genres and len(found.labels) == sum(genres.values())
    with open(path, encoding="utf-8", newline="") as file:    # quotation marks swallow rows
        assert len(list(csv.reader(file, delimiter="\t"))) == rows_if_quoted


def test_recipes_are_chosen_by_three_genres_of_equal_weight_without_what_is_held_back(
        data_folder):
    files = sts.find(data_folder)
    train, dev, genres = (sts.read(files[name]) for name in ("train", "dev", sts.GENRES))
    held = sts.held_back(train)
    assert len({*held.tolist()}) == 1_000 and (held == sts.held_back(train)).all()
    kept = set(range(5_749)) - {*held.tolist()}
    assert genres.sentences1 == [train.sentences1[k] for k in sorted(kept)] + dev.sentences1
    assert genres.sentences2[-1_501:] == [train.sentences2[max(kept)], *dev.sentences2]
    noisy = genres.labels + np.random.default_rng(0).standard_normal(len(genres.labels))
    found = sts.figures(genres, noisy)
    assert found["mean r"][0] == pytest.approx(np.mean([found[genre][0] for genre in (
        "captions", "forums", "news")]))
    assert "train" not in sts.GENRES and sts.find(None).keys() == {"built-in set"}


def test_the_own_set_has_120_pairs_of_three_genres():
    assert sts.find(None) == {"built-in set": sts.OWN}
    own = sts.read(sts.OWN)
    assert Counter(own.genres.tolist()) == {"captions": 40, "forums": 40, "news": 40}
    assert own.labels.min() < 0.5 and own.labels.max() > 4.5
    assert len(set(zip(own.sentences1, own.sentences2))) == 120


def test_columns_after_the_seventh_windows_line_ends_and_quotation_marks_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(f'{ROW}\r\n{ROW}\tlicence\tsource\n\nmain-forum\ta\t\t\t0\t"x\tNEL\x85 "" y\n'
                     'main-forums\tb\t\t\t5\t\ty'.encode())
    found = sts.read(path)
    assert found.genres.tolist() == ["news", "news", "forums", "forums"]
    assert found.labels.tolist() == [4.5, 4.5, 0, 5]
    assert found.sentences1 == ['A quote " here', 'A quote " here', '"x', ""]
    assert found.sentences2 == ["Another one", "Another one", 'NEL\x85 "" y', "y"]


@pytest.mark.parametrize("text, where, what", [
    ("\n\n", "", "is empty"),
    (f"{ROW}\n\nmain-news\t1\t2\n", ", line 3", "no "),
    (f"{ROW}\n{ROW.replace('4.5', '5.5')}", ", line 2", 'score "5.5", expected a score from 0 to'),
    (ROW.replace("4.5", "nan"), ", line 1", 'score "nan"'),
    (ROW.replace("quote", "caf\xe9").encode("latin-1"), "", "cannot be read as UTF-8"),
    (None, "", "cannot be read"),
])
def test_a_bad_file_is_a_user_error_that_names_file_and_line(tmp_path, text, where, what):
    path = tmp_path / "a.csv"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as error:
        sts.read(path)
    assert str(error.value).startswith(f"{path}{where}: ") and what in str(error.value)


def test_files_are_found_in_the_folder_or_below_it_and_else_it_is_said(tmp_path):
    with pytest.raises(UserError, match="lacks sts-train.csv.* folders stsbenchmark") as error:
        sts.find(tmp_path)
    assert str(tmp_path) in str(error.value)
    with pytest.raises(UserError, match="lacks x.txt; put the files"):    # it has no such folders
        find_files([DataSet("X", ["x.txt"])], tmp_path)
    folder = tmp_path / "stsbenchmark"
    folder.mkdir()
    (folder / "sts-dev.csv").write_text(ROW)
    assert sts.find(tmp_path) == sts.find(folder) == {"dev": folder / "sts-dev.csv"}


# ---------------------------------------------------------------- the years

@pytest.fixture
def year(tmp_path, monkeypatch):
    """A year's folder with two sets, of 12 and 30 scored pairs, each with 5 unscored ones."""
    monkeypatch.setitem(sts.COUNTS, "STS16-en-test", {"plagiarism": 12, "headlines": 30})
    folder = tmp_path / "senteval" / "downstream" / "STS" / "STS16-en-test"
    folder.mkdir(parents=True)
    for name, count in sts.COUNTS[folder.name].items():
        scores = ["", *(f"{5 * k / count:.1f}" for k in range(count)), "", "", "", ""]
        lines = [f'a "film {k}\tthe \u20ac {k % 7} \x85 \tsource one\tsource two'
                 for k in range(len(scores))]
        for kind, rows in (("input", lines), ("gs", scores)):
            (folder / f"STS.{kind}.{name}.txt").write_bytes(("\n".join(rows) + "\n").encode())
    return folder


def test_a_year_is_found_beside_the_benchmark_and_read_whole(year, tmp_path):
    assert sts.find(tmp_path) == sts.find(year.parent) == {year.name: year}
    (tmp_path / "sts-dev.csv").write_text(ROW)
    assert sts.find(tmp_path) == {"dev": tmp_path / "sts-dev.csv", year.name: year}
    found = sts.read(year)
    assert found.genres.tolist() == ["plagiarism"] * 12 + ["headlines"] * 30
    assert found.sentences1[:2] == ['a "film 1', 'a "film 2']   # the first line has no score
    assert found.sentences2[0] == "the \u20ac 1"
    np.testing.assert_allclose(found.labels[:3], [0, 0.4, 0.8])


@pytest.mark.parametrize("old, new, message", [
    ("\n2.5\n", "\n2.5\n\n", ": 36 lines; expected 35, as in"),
    ("2.5", "5.1", ', line 17: score "5.1", expected a score from 0 to 5'),
])
def test_what_is_wrong_with_a_year_is_said(year, old, new, message):
    gold = year / "STS.gs.headlines.txt"
    gold.write_text(gold.read_text().replace(old, new))
    with pytest.raises(UserError) as raised:
        sts.read(year)
    assert str(raised.value).startswith(f"{gold}{message}"), raised.value
    gold.unlink()
    with pytest.raises(UserError, match="gs.headlines.txt: cannot be read as UTF-8 text"):
        sts.read(year)


def test_a_year_is_the_mean_over_its_sets():
    rng = np.random.default_rng(0)
    genres = np.repeat(["b", "a"], [10, 90])
    labels, values = rng.uniform(0, 5, 100), rng.standard_normal(100)
    values[:10] += labels[:10]
    of_year = Sts(genres, labels, [], [], is_mean=True)
    figures = sts.figures(of_year, values)
    a, b = (100 * pearson(values[genres == one], labels[genres == one]) for one in "ab")
    assert {metric: value for metric, (value, *_) in figures.items()} == pytest.approx(
        {"mean r": (a + b) / 2, "a": a, "b": b}, abs=1e-3)
    difference, *interval = sts.lead(of_year, values, -values)
    assert difference == pytest.approx(2 * figures["mean r"][0]) and np.isnan(interval).all()


# ---------------------------------------------------------------- similarity

def test_angular_similarity_is_minus_the_angle():
    angles = np.linspace(0, np.pi, 50)
    u, v = np.eye(20)[[3] * 50], np.zeros((50, 20))
    v[:, 3], v[:, 7] = np.cos(angles), np.sin(angles)
    found = sts.angular_similarity(u, v)
    np.testing.assert_allclose(found, -angles, atol=1e-3)     # of settled cosines
    np.testing.assert_allclose(np.cos(found), np.cos(angles), atol=1e-6)
    # In float32 a unit vector's square is not exactly 1, and arccos is steep there.
    x = np.random.default_rng(0).standard_normal((50, 20)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    np.testing.assert_allclose(sts.angular_similarity(x, x), 0, atol=2e-3)
    assert sts.score_0_to_5(np.array([0.0, -np.pi / 2, -np.pi])).tolist() == [5, 2.5, 0]


def test_a_runs_rows_are_its_vectors_plain_and_tuned(run_copy):
    own, run = sts.read(sts.OWN), load_run(run_copy)
    assert [*sts.scores(run, own, encoder_of(run).encode)] == [
        "trained", "trained, as cosine", "trained, with words"]
    turn = np.random.default_rng(0).standard_normal((16, 16))
    found = sts.scores(save_tuned(run, turn), own, encoder_of(run).encode)
    assert [*found] == [f"{row}{kind}" for kind in ("", ", as cosine", ", with words")
                        for row in ("trained", "trained, tuned")]
    for row, tuned in (("trained", False), ("trained, tuned", True)):
        cosines = np.vecdot(*sts.unit_vectors(load(run_copy, tuned=tuned).encode, own))
        np.testing.assert_allclose(found[f"{row}, as cosine"], cosines, atol=1e-5)
        np.testing.assert_allclose(found[row], -np.arccos(np.clip(cosines, -1, 1)), atol=3e-3)
        encoder = load(run_copy, tuned=tuned)
        both = [encoder.scores([one], [other])[0, 0]
                for one, other in zip(own.sentences1, own.sentences2)]
        np.testing.assert_allclose(found[f"{row}, with words"], both, atol=1e-5)
    assert [*sts.scores(save_tuned(run, turn), own._replace(is_mean=True),
                        encoder_of(run).encode)][1:] == ["trained, as cosine",
                                                         "trained, with words"]
    assert np.abs(found["trained"] - found["trained, tuned"]).max() > 0.1


def test_whatever_encodes_is_scored_by_its_cosines(encoder):
    """A function from texts to vectors of any length can be used instead of a Run."""
    own = sts.read(sts.OWN)
    lengths = iter(np.random.default_rng(0).uniform(0.1, 9, 10_000))

    def encode(texts):
        return [vector * next(lengths) for vector in encoder.encode(texts)]

    expected = np.vecdot(encoder.encode(own.sentences1), encoder.encode(own.sentences2))
    np.testing.assert_allclose(sts.scores(None, own, encode)["trained, as cosine"],
                               expected, atol=1e-5)
    (one,) = measured(encode, None, ["sts"])
    assert one.figures["trained, as cosine"]["r"] == pytest.approx(
        correlation(expected, own.labels), abs=1e-3)


@pytest.mark.filterwarnings("error")
def test_figures_are_r_of_all_and_of_each_genre_there_and_rho():
    genres = np.repeat(["news", "captions"], [20, 40])        # there are no forums
    labels, similarity = np.random.default_rng(0).random((2, 60)).round(3)
    pairs = Sts(genres, labels, [], [])
    assert sts.title("train", pairs).startswith("STS train, 60 pairs (captions 40, news 20)")
    figures = sts.figures(pairs, similarity)
    assert [*figures] == ["r", "captions", "news", "rho"]
    for metric, some in (("r", slice(None)), ("captions", slice(20, None)), ("news", slice(20))):
        assert figures[metric] == correlation(similarity[some], labels[some])
    assert figures["rho"][0] == pytest.approx(100 * spearman(similarity, labels))
    assert np.isnan([*sts.figures(pairs, np.ones(60)).values()]).all()
