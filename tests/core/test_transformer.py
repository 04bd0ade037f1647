"""The Transformer: against loops and PyTorch, and what has to hold of any sentence."""

import tracemalloc
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convsim_mini.core.packed import Packed
from convsim_mini.evaluation.attention import distances, summary
from convsim_mini.core import attention, dropout, transformer
from convsim_mini.core.attention import Group, attention_forward, groups, timing_signal
from convsim_mini.core.model import embed, encoder_forward
from convsim_mini.core.dropout import NO_DROPOUT, Dropout, dropout_forward
from convsim_mini.training.options import parse_config

from conftest import SMALL, command
from small_transformer import CONFIG, WORDS, pack, small_model


# ---------------------------------------------------------------- attention

def attention_by_loops(qkv, offsets, heads):
    """The same by its definition: each sentence, each head, each word alone."""
    d = qkv.shape[1] // 3
    y = np.zeros((len(qkv), d), qkv.dtype)
    for first, last in zip(offsets, offsets[1:]):
        for head in range(heads):
            columns = slice(head * d // heads, (head + 1) * d // heads)
            q, k, v = (qkv[first:last, part * d:(part + 1) * d][:, columns] for part in range(3))
            for i in range(last - first):
                weights = np.exp(k @ q[i] / np.sqrt(d // heads))
                y[first + i, columns] = weights / weights.sum() @ v
    return y


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [5, 5, 2, 7, 7, 7, 1], list(range(1, 12)),
                                     [3] * 256, [2, 9, 2, 9]])
@pytest.mark.parametrize("at_once", [1, 100, 2**20])
def test_attention_is_what_loops_over_sentences_and_heads_give(lengths, at_once, monkeypatch):
    monkeypatch.setattr(attention, "SCORES_AT_ONCE", at_once)
    packed = pack(lengths)
    qkv = np.random.default_rng(1).standard_normal((len(packed.ids), 24))
    y, _ = attention_forward(qkv, packed.offsets, 4)
    assert np.abs(y - attention_by_loops(qkv, packed.offsets, 4)).max() < 1e-12


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 4), st.integers(1, 500))
def test_runs_are_all_sentences_once_and_keep_to_the_budget(lengths, heads, at_once):
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    kept, attention.SCORES_AT_ONCE = attention.SCORES_AT_ONCE, at_once
    try:
        found = groups(offsets, heads)
    finally:
        attention.SCORES_AT_ONCE = kept
    assert ([run.first for run in found] == [0, *(run.last for run in found[:-1])]
            and found[-1].last == offsets[-1])
    assert [run.length for run in found for _ in range(run.first, run.last, run.length)] == lengths
    for run in found:
        sentences = (run.last - run.first) // run.length
        assert sentences == 1 or sentences * heads * run.length ** 2 <= at_once
    assert groups(np.array([0, 3, 6, 9, 10]), 1) == [Group(0, 9, 3), Group(9, 10, 1)]


def test_timing_signal_of_tensor2tensor():
    signal = timing_signal(501, 8, np.float64)[[0, 1, 2, 500]]
    assert signal[0].tolist() == [0] * 4 + [1] * 4
    for row, position in zip(signal, (0, 1, 2, 500)):
        timescales = [1, 10_000 ** (1 / 3), 10_000 ** (2 / 3), 10_000]
        assert row == pytest.approx(
            [np.sin(position / t) for t in timescales] + [np.cos(position / t) for t in timescales])


# ---------------------------------------------------------------- dropout

def test_dropout_keeps_the_mean_and_its_bits_follow_from_the_key():
    x = np.ones((1000, 77), np.float32)
    y, factor = dropout_forward(x, Dropout(0.1, key=3))
    share = (y == 0).mean()
    assert abs(share - 26 / 256) < 0.005 and abs(y.mean() - 1) < 0.01
    assert set(np.unique(y)) == {0, np.float32(256 / 230)}
    words = np.array([dropout._mix_python(3 + k) for k in range(10)], np.uint64)
    assert ((y.ravel()[:80] == 0) == (words.view(np.uint8) < 26)).all()   # a byte decides a number
    assert (dropout_forward(x, Dropout(0.1, key=3))[0] == y).all()
    steps = [dropout_forward(x, Dropout(0.1, key=seed).at(step))[0]
             for seed, step in ((1, 5), (1, 6), (2, 5))]
    for one, other in combinations([y, *steps], 2):  # independent: both zero as often as by chance,
        for shift in (0, 8):                         # and no copy, moved by a word, of one another
            assert abs(((one.ravel()[:-8] == 0)
                        & (np.roll(other, shift).ravel()[:-8] == 0)).mean()
                       - (26 / 256) ** 2) < 0.003
    columns = (y == 0)[:, :-1] & (y == 0)[:, 1:]
    assert abs(columns.mean() - (26 / 256) ** 2) < 0.003


def test_each_token_has_counters_of_its_own_for_attention_s_dropout():
    qkv = np.random.default_rng(0).standard_normal((7, 12))
    _, cache = attention_forward(qkv, np.array([0, 3, 5, 7]), 2, Dropout(0.4, 5))
    for group, factor, sentences in zip(cache.sentences, cache.factors, ([0], [3, 5]), strict=True):
        p = np.ones((len(sentences), 2, group.length, group.length))
        for one, first in enumerate(sentences):               # 2²⁴ counters a token
            begins = np.array([first << 24], np.uint64)
            assert (dropout_forward(p[one], Dropout(0.4, 5), begins)[0] == factor[one]).all()


def test_the_bits_of_dropout_are_the_published_ones_of_splitmix64():
    # Steele, Lea and Flood 2014: its first outputs for the seed 0 mix the counters γ, 2γ, 3γ.
    gamma = 0x9E3779B97F4A7C15
    outputs = [dropout._mix_python(gamma * k) for k in (1, 2, 3)]
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_nothing_is_left_out_at_evaluation():
    x = np.ones((4, 3))
    assert dropout_forward(x, NO_DROPOUT)[0] is x and dropout_forward(x, Dropout(0.0, 1))[0] is x
    model, packed = small_model(), pack([3, 4])
    assert (embed(model, packed) == embed(model, packed)).all()


# ---------------------------------------------------------------- sentences

@given(st.lists(st.integers(1, 12), min_size=1, max_size=12), st.randoms(), st.booleans())
@settings(max_examples=40)
def test_an_embedding_does_not_depend_on_its_batch(lengths, random, pre_norm):
    model, packed = small_model(replace(CONFIG, pre_norm=pre_norm)), pack(lengths)
    together = embed(model, packed)
    assert np.linalg.norm(together, axis=1) == pytest.approx(1, abs=1e-5)
    order = list(range(len(lengths)))
    random.shuffle(order)
    alone = np.concatenate([embed(model, packed.part(b, b + 1)) for b in range(len(lengths))])
    assert np.abs(together - alone).max() < 1e-6
    parts = [packed.part(b, b + 1) for b in order]
    shuffled = Packed(np.concatenate([part.ids for part in parts]),
                      np.cumsum([0, *(len(part.ids) for part in parts)]))
    assert np.abs(embed(model, shuffled) - together[order]).max() < 1e-6


@pytest.mark.parametrize("lengths", [[1] * 9, [7] * 256, list(range(1, 41))])
def test_batches_of_one_length_and_of_every_length(lengths):
    model, packed = small_model(), pack(lengths)
    alone = np.concatenate([embed(model, packed.part(b, b + 1)) for b in range(len(lengths))])
    assert np.abs(embed(model, packed) - alone).max() < 1e-6


@pytest.mark.parametrize("pre_norm", [True, False])
def test_the_order_of_words_counts_only_by_the_timing_signal(pre_norm, monkeypatch):
    model = small_model(replace(CONFIG, pre_norm=pre_norm), np.float64)
    ids = np.random.default_rng(3).permutation(WORDS)[:9].astype(np.int32)
    one, other = Packed(ids, np.array([0, 9])), Packed(ids[::-1].copy(), np.array([0, 9]))
    assert np.abs(embed(model, one) - embed(model, other)).max() > 1e-3
    monkeypatch.setattr(transformer, "timing_signal",
                        lambda length, width, dtype, xp: np.zeros((length, width)))
    assert np.abs(embed(model, one) - embed(model, other)).max() < 1e-12


@pytest.mark.parametrize("bag", [False, True])
def test_long_sentences_are_cut(bag):
    model, packed = small_model(replace(CONFIG, bag=bag)), pack([50, 3])
    cut = Packed(np.concatenate([packed.ids[:40], packed.ids[50:]]), np.array([0, 40, 43]))
    assert (embed(model, packed) == embed(model, cut)).all()


# ---------------------------------------------------------------- presets

def test_encoding_keeps_no_caches_of_layers():
    model, packed = small_model(replace(CONFIG, transformer_layers=8)), pack([20] * 200)
    assert np.array_equal(embed(model, packed), encoder_forward(model, packed)[0])

    def peak(function):
        tracemalloc.start()
        function(model, packed)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most
    assert peak(embed) < 0.4 * peak(encoder_forward)


def test_the_papers_size():
    config = parse_config(["--preset", "transformer"])
    model = config.model
    assert ((model.encoder, model.embedding_dim, model.transformer_layers, model.heads,
             model.hidden, model.layers) == ("transformer", 512, 6, 8, 2048, [500]))
    assert config.bigram_rows == 0 and config.optim.rate == 0.01 and config.steps == 40_000_000


def test_encoder_is_short_for_a_preset():
    assert (parse_config(["--encoder", "transformer"])
            == parse_config(["--preset", "transformer-small"]))
    assert parse_config(["--encoder=dan", "--steps", "5"]) == parse_config(["--steps", "5"])


# ---------------------------------------------------------------- runs

@pytest.fixture(scope="module")
def transformer_run(tmp_path_factory, pair_file, cache_folder):
    """A small Transformer's run of 20 steps; tests must not change its weights."""
    folder = tmp_path_factory.mktemp("transformer") / "run"
    done = command("train", "--encoder", "transformer", "--pairs", pair_file,
                   "--cache", cache_folder, *SMALL, "--model.heads", 2, "--model.hidden", 24,
                   "--model.max_tokens", 8, "--steps", 20, "--evaluations", 2,
                   "--run", folder, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    assert "sentences have more than 8 words and are cut there" in done.stdout
    return folder


def test_a_transformer_is_evaluated_and_encodes(transformer_run, tmp_path):
    for module in ("evaluation.response", "evaluation.sts", "evaluation.cqa"):
        done = command(module, transformer_run, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    done = command("encode", transformer_run, "fudazi", f"one fudazi{' two' * 7}", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 of 2 sentences have more than 8 words and are cut there" in done.stdout


def test_attention_is_drawn_and_its_reach_reported(transformer_run, tmp_path):
    done = command("evaluation.attention", transformer_run, "fudazi vobamu setodi", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (transformer_run / "attention.png").read_bytes().startswith(b"\x89PNG")
    assert "the same attention to every word" in done.stdout and "This run" in done.stdout


def test_reach_is_the_mean_distance_of_what_is_attended_to():
    model = small_model()
    packed = pack([3, 5, 5, 2])
    for k in range(2):                           # queries of zero: the same attention to every word
        model.params[f"encoder.layer{k}.attention.qkv.weight"][:, :16] = 0
    reach, uniform = distances(model, packed)
    by_hand = [np.abs(np.subtract.outer(np.arange(n), np.arange(n))).mean() for n in (2, 3, 5, 5)]
    assert uniform == pytest.approx(by_hand)
    np.testing.assert_allclose(reach, [by_hand, by_hand], rtol=1e-5)


def test_one_layer_gives_no_verdict():
    assert "one layer, so there is nothing to compare" in summary(np.ones((1, 9)), np.ones(9))


def test_the_verdict_follows_the_layers():
    rng = np.random.default_rng(0)
    near, far = rng.random(100), 1 + rng.random(100)
    assert "This run shows it" in summary(np.array([near, far]), far)
    assert "This run shows the opposite" in summary(np.array([far, near]), far)
    assert "This run does not show it" in summary(np.array([near, near[::-1]]), far)
