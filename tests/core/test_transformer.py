"""Attention against loops, the bits of dropout, what holds for any sentence in a Transformer."""

import tracemalloc
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convsim_mini.core import attention
from convsim_mini.core.attention import Group, groups, self_attention_forward
from convsim_mini.core.model import embed, encoder_forward
from convsim_mini.core.packed import offsets_of
from convsim_mini.core.transformer import attention_weights
from convsim_mini.core.transformer_layers import Dropout, dropout_forward, dropout_of, mixed

import plain_forward
from small_transformer import CONFIG, pack, random_sentences, small_model


# ---------------------------------------------------------------- attention

@pytest.mark.parametrize("lengths", [[1], [5, 5, 2, 7, 7, 7, 1], [3] * 50, [2, 9, 2, 9]])
@pytest.mark.parametrize("at_once", [1, 100, 2**20])
def test_attention_is_what_loops_over_sentences_and_heads_give(lengths, at_once, monkeypatch):
    monkeypatch.setattr(attention, "SCORES_AT_ONCE", at_once)
    offsets, rng = offsets_of(lengths), np.random.default_rng(1)
    x = rng.standard_normal((offsets[-1], 8))
    params = {name: rng.standard_normal(shape) for name, shape in {
        "of.qkv.weight": (8, 24), "of.qkv.bias": 24, "of.output.weight": (8, 8),
        "of.output.bias": 8}.items()}
    y, _ = self_attention_forward(x, *params.values(), offsets, 4)
    expected = [row for words in np.split(x, offsets[1:-1])
                for row in plain_forward.self_attention(params, "of", words, 4)]
    assert np.abs(y - expected).max() < 1e-12


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(1, 4), st.integers(1, 500))
def test_groups_are_all_sentences_once_and_keep_to_the_budget(lengths, heads, at_once):
    offsets = offsets_of(lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "SCORES_AT_ONCE", at_once)
        found = groups(offsets, heads)
    assert ([group.first for group in found] == [0, *(group.last for group in found[:-1])]
            and found[-1].last == offsets[-1])
    assert [group.length for group in found
            for _ in range(group.first, group.last, group.length)] == lengths
    for group in found:
        sentences = (group.last - group.first) // group.length
        assert sentences == 1 or sentences * heads * group.length ** 2 <= at_once
    assert groups(np.array([0, 3, 6, 9, 10]), 1) == [Group(0, 9, 3), Group(9, 10, 1)]


# ---------------------------------------------------------------- dropout

def bits(counters):
    """SplitMix64's output for each counter: uint64 (n,)."""
    return mixed(np.array(counters, np.uint64))


def test_the_bits_of_dropout_are_the_published_ones_of_splitmix64():
    # Steele, Lea and Flood 2014: the first outputs for seed 0 mix the counters γ, 2γ, 3γ.
    gamma = 0x9E3779B97F4A7C15
    assert bits([gamma * k % 2**64 for k in (1, 2, 3)]).tolist() == [
        0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_dropout_leaves_out_a_number_by_a_byte_and_scales_the_rest():
    x = np.full((1000, 77), 2, np.float32)
    y, factor = dropout_forward(x, Dropout(0.1, key=3))
    kept = bits(range(3, 9_628)).view(np.uint8).reshape(x.shape) >= 26    # 0.1 is nearly 26/256
    assert (factor == kept * np.float32(256 / 230)).all() and (y == x * factor).all()
    for nothing in (Dropout(0, 1), dropout_of(0.1, ()), dropout_of(0.1, None), dropout_of(0, (1,))):
        assert dropout_forward(x, nothing)[0] is x


def test_each_step_and_place_has_other_bits():
    places = [(1, 5), (1, 6), (2, 5), (1, 5, 0, 0), (1, 5, 0, 1), (1, 5, 1, 0)]
    zeros = [dropout_forward(np.ones(77_000), dropout_of(0.1, place[:2], *place[2:]))[0] == 0
             for place in places]
    for one, other in combinations(zeros, 2):    # independent: both zero as often as by chance;
        for shift in (0, 8):                     # neither a copy of the other shifted by a word
            assert abs((one[:-8] & np.roll(other, shift)[:-8]).mean() - (26 / 256) ** 2) < 0.005


# ---------------------------------------------------------------- sentences

@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.booleans())
@settings(max_examples=40)
def test_an_embedding_does_not_depend_on_its_batch(lengths, bag):
    model = small_model(replace(CONFIG, bag=bag))
    packed = random_sentences(lengths)
    alone = np.concatenate([embed(model, packed.part(b, b + 1)) for b in range(len(lengths))])
    assert np.abs(embed(model, packed) - alone).max() < 1e-6
    cut = pack(packed.ids[:lengths[0]][:CONFIG.max_tokens])
    assert (embed(model, cut) == alone[0]).all()


def test_attention_weights_are_those_of_each_layer_and_group():
    weights = attention_weights(small_model(), random_sentences([3, 5, 5, 2]))
    assert [[p.shape for p in layer] for layer in weights] == 2 * [
        [(1, 4, 2, 2), (1, 4, 3, 3), (2, 4, 5, 5)]]
    assert all(np.allclose(p.sum(axis=3), 1) for layer in weights for p in layer)


def test_encoding_keeps_no_caches_of_layers():
    model, packed = small_model(replace(CONFIG, transformer_layers=8)), random_sentences([20] * 200)
    assert np.array_equal(embed(model, packed), encoder_forward(model, packed)[0])

    def peak(function):
        tracemalloc.start()
        function(model, packed)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most
    assert peak(embed) < 0.4 * peak(encoder_forward)
