"""Tuning for STS: what a matrix can learn, how it is chosen, that evaluation uses it."""

import re
from dataclasses import replace

import numpy as np
import pytest

from convsim_mini import tune
from convsim_mini.evaluation import sts
from convsim_mini.evaluation.metrics import pearson
from convsim_mini.evaluation.results import cell
from convsim_mini.inference.sentence_encoder import encoder_of, with_matrix
from convsim_mini.core.model import encoder_forward
from convsim_mini.core.layers import l2_normalize_forward
from convsim_mini.training.run import load_run, training_in

from conftest import command
from small_transformer import CONFIG, random_sentences, small_model


def toy(pairs, seed=0):
    """u1, u2, labels: embeddings with 8 dimensions; labels depend only on the first two."""
    rng = np.random.default_rng(seed)
    u1, u2 = rng.standard_normal((2, pairs, 8))
    cosine = ((u1[:, :2] * u2[:, :2]).sum(1) / np.linalg.norm(u1[:, :2], axis=1)
              / np.linalg.norm(u2[:, :2], axis=1))
    return u1, u2, -np.arccos(cosine)


def test_similarity_and_correlation_are_what_they_are_called():
    u1, u2, labels = toy(30)
    matrix = np.random.default_rng(1).standard_normal((8, 8))
    a, b = (l2_normalize_forward(u @ matrix)[0] for u in (u1, u2))
    similarity, _ = tune.similarity_forward(matrix, u1, u2)
    assert similarity == pytest.approx(sts.angular_similarity(a, b), abs=1e-5)    # settled
    assert tune.correlation_forward(similarity, labels)[0] == pytest.approx(
        pearson(similarity, labels))


def test_the_matrix_learns_which_directions_count():
    u1, u2, labels = toy(400)
    matrix = tune.fit(u1, u2, labels, strength=1e-4, iterations=60)
    new = toy(400, seed=1)
    before, after = (pearson(tune.similarity_forward(m, *new[:2])[0], new[2])
                     for m in (np.eye(8), matrix))
    assert before < 0.6 and after > 0.95
    strict = tune.fit(u1, u2, labels, strength=1e4, iterations=60)
    assert np.abs(strict - np.eye(8)).max() < 1e-3            # kept near the identity


def test_a_run_is_tuned_and_evaluated_both_ways(run_copy, tmp_path, capsys):
    rng, words = np.random.default_rng(0), "fudazi vobamu setodi tufome nozozi".split()
    for name, pairs in (("train", 120), ("dev", 40)):
        rows = []
        for n in range(pairs):
            one, two = (" ".join(rng.choice(words, 3)) + f" {name}{n % 50}" for _ in range(2))
            genre = ("captions", "forums", "news")[n % 3]
            rows.append(f"main-{genre}\tfile\t2012\t1\t{5 * rng.random():.1f}\t{one}\t{two}\n")
        (tmp_path / f"sts-{name}.csv").write_text("".join(rows))
    done = command("tune", run_copy, "--data", tmp_path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run, dev = load_run(run_copy), sts.read(tmp_path / "sts-dev.csv")
    shown = [cell(sts.figures(dev, sts.scores(run, dev, encoder_of(run).encode)[row])["r"])
             for row in ("trained, tuned, as cosine", "trained, as cosine")]
    assert re.findall(r"^trained.* as cosine  +(.*?\])", done.stdout, re.MULTILINE) == shown
    assert run.tuned.shape == (16, 16) and shown[0] != shown[1]
    with training_in(run_copy), pytest.raises(SystemExit):
        tune.main([str(run_copy), "--data", str(tmp_path)])
    assert "another process is training in it" in capsys.readouterr().err


@pytest.mark.parametrize("change", [
    {"encoder": "dan", "layers": [10, 12], "encoder_bias": True}, {"encoder": "dan"}, {},
    {"bag": True, "encoder_bias": True}])
def test_a_matrix_becomes_part_of_the_last_linear_layers(change):
    model = small_model(replace(CONFIG, **change), np.float64, noise=1.0)
    packed, matrix = random_sentences([3, 1, 5]), np.random.default_rng(0).standard_normal((12, 12))
    expected = l2_normalize_forward(encoder_forward(model, packed)[0] @ matrix)[0]
    found = encoder_forward(with_matrix(model, matrix), packed)[0]
    assert np.abs(found - expected).max() < 1e-10
