"""P@N: which candidates are drawn, and the ranks of the true responses, against loops."""

import numpy as np
import pytest

from convsim_mini.core.batches import Split
from convsim_mini.core.ranking import candidate_scores, draw_candidates, precision, true_ranks

from small_transformer import small_split


def test_precision_is_what_loops_over_candidates_give():
    pairs, candidates = draw_candidates(small_split(pairs=300), 250)
    assert len(set(pairs.tolist())) == 250 and candidates.shape == (250, 100)
    u, noise = np.random.default_rng(0).standard_normal((2, 250, 8))
    v_prime, right = u + 2 * noise, 0
    for query, drawn in enumerate(candidates):
        assert drawn[0] == query and len(set(drawn.tolist())) == 100
        scores = [float(u[query] @ v_prime[other]) for other in drawn]
        right += all(scores[0] > other for other in scores[1:])
    ranks = true_ranks(candidate_scores(u, v_prime, candidates))
    assert precision(ranks, 1) == pytest.approx(100 * right / 250) and 9 < right < 240
    assert precision(ranks, 100) == 100 and ranks.min() >= 1
    assert true_ranks(np.array([[0.5, 0.4999996], [0.5, 0.499999]])).tolist() == [2, 1]


def test_the_true_text_is_no_wrong_response_and_99_are_needed():
    split = small_split(pairs=150)
    keys = split.keys.copy()
    keys[:40, 1] = 7                                          # one text 40 times
    pairs, candidates = draw_candidates(split._replace(keys=keys), 150)
    for query in np.flatnonzero(keys[pairs, 1] == 7):
        assert (keys[pairs[candidates[query, 1:]], 1] != 7).all()
    keys[:51, 1] = 7                                          # 99 others left
    draw_candidates(split._replace(keys=keys), 150)
    keys[:52, 1] = 7
    with pytest.raises(ValueError, match="52 of 150 are the same text"):
        draw_candidates(split._replace(keys=keys), 150)
    with pytest.raises(ValueError, match="0 of 0 are the same text"):
        draw_candidates(Split(np.empty(0, np.int32), np.zeros(1, np.int64), keys[:0]), 150)
