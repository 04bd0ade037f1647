"""The years of STS: their official files, and their traps; the two means over a year's sets."""

import numpy as np
import pytest

from convsim_mini.common.cli import UserError
from convsim_mini.evaluation import command, sts_years
from convsim_mini.evaluation.metrics import pearson, spearman
from convsim_mini.evaluation.sts import Sts


@pytest.fixture
def year(tmp_path, monkeypatch):
    """The folder of a year of two sets, of 12 and 30 scored pairs and 5 without a score each."""
    monkeypatch.setitem(sts_years.COUNTS, "STS16-en-test", {"plagiarism": 12, "headlines": 30})
    folder = tmp_path / "senteval" / "downstream" / "STS" / "STS16-en-test"
    folder.mkdir(parents=True)
    for name, count in sts_years.COUNTS[folder.name].items():
        scores = ["", *(f"{5 * k / count:.1f}" for k in range(count)), "", "", "", ""]
        lines = [f'a "film {k}\tthe \u20ac {k % 7} \x85 \tsource one\tsource two'
                 for k in range(len(scores))]
        for kind, rows in (("input", lines), ("gs", scores)):
            (folder / f"STS.{kind}.{name}.txt").write_bytes(("\n".join(rows) + "\n").encode())
    return folder


def test_a_year_of_the_official_shape_is_read_whole(year, tmp_path):
    assert sts_years.find(tmp_path, None) == sts_years.find(year.parent, None) == {year.name: year}
    sts = sts_years.read(year)
    assert sts.genres.tolist() == ["plagiarism"] * 12 + ["headlines"] * 30
    assert sts.sentences1[:2] == ['a "film 1', 'a "film 2']   # the first line has no score
    assert sts.sentences2[0] == "the \u20ac 1"
    np.testing.assert_allclose(sts.labels[:3], [0, 0.4, 0.8])


def test_what_is_wrong_with_a_year_is_said(year, tmp_path):
    gold = year / "STS.gs.headlines.txt"
    kept = gold.read_text()
    for text, message in ((kept.replace("\n2.5\n", "\n\n"), ": 29 scores, expected the official"),
                          (kept + "\n", ": 36 lines, expected one for each of the 35 of STS.input"),
                          (kept.replace("2.5", "5.1"), ', line 17: score "5.1" of 4 columns'),
                          (kept.replace("2.5", "nan"), ', line 17: score "nan" of 4 columns')):
        gold.write_text(text)
        with pytest.raises(UserError) as raised:
            sts_years.read(year)
        assert str(raised.value).startswith(f"{gold}{message}"), raised.value
    gold.unlink()
    with pytest.raises(UserError, match="gs.headlines.txt: cannot be read as UTF-8 text"):
        sts_years.read(year)
    with pytest.raises(UserError, match="holds no STS12-en-test or STS13-en-test or"):
        sts_years.find(year, None)


def test_a_year_is_the_mean_over_its_sets_plain_and_weighted():
    rng = np.random.default_rng(0)
    genres = np.repeat(["b", "a"], [10, 90])
    labels, values = rng.uniform(0, 5, 100), rng.standard_normal(100)
    values[:10] += labels[:10]
    figures = [[100 * measure(values[genres == one], labels[genres == one])
                for measure in (pearson, spearman)] for one in "ab"]
    text = sts_years.summary("STS16-en-test", Sts(genres, labels, [], []), {"trained": values}, {})
    plain = [(x + y) / 2 for x, y in zip(*figures)]
    weighted = [0.9 * x + 0.1 * y for x, y in zip(*figures)]
    _, _, trained, *published, source = text.splitlines()
    assert [line.split()[-1] for line in published] == ["51.4", "71.5"]
    assert "published" in source and all("published" in line for line in published)
    shown = [float(cell) for cell in trained.replace("/", " ").split()[1:]]
    np.testing.assert_allclose(shown, [*plain, *weighted, *figures[0], *figures[1]], atol=0.051)


def test_a_run_is_measured_on_the_years_there(year, tmp_path, run_copy, capsys):
    (tmp_path / "some.vec").write_text("a 1 0 0.5\nfilm 0 1 0\nthe 0 -1 1\n")
    command.main("sts_years", "--vectors", data="folder", argv=[
        str(run_copy), "--data", str(tmp_path), "--vectors", str(tmp_path / "some.vec")])
    header, _, *lines, _ = capsys.readouterr().out.strip().splitlines()
    assert header.split("  ")[0] == "STS16-en-test, r / rho × 100"
    assert "headlines 30" in header and "plagiarism 12" in header
    rows = [line.split("  ")[0] for line in lines]
    assert rows[:2] == ["trained", "as encode gives it"]
    assert "SIF of some.vec" in rows and "binary word cosine" in rows
