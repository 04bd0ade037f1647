"""Solutions of lesson 15, Layer norm, residuals, depth.

1: Stretching x leaves y as it is, so the part along x̂ is projected out; adding a constant does
not, so the mean stays. Layer norm's backward takes the mean away as well.
2: With W₁ = 0 the addition changes nothing, and what the cache holds is still x. A small W₁ is
seen. A huge W₀ has no gradient at all, and the check passes after a step, too.
"""

from prove import run_lesson, solution
import numpy as np

from convsim_mini.core.transformer_layers import layer_norm_backward

run_lesson(__file__)


def solution_rms_norm_backward(dy, cache):
    normal, scale, weight = cache
    dnormal = dy * weight
    # stretching is undone; a constant now shows in y
    along = (dnormal * normal).mean(axis=1, keepdims=True)
    return scale * (dnormal - normal * along), (dy * normal).sum(axis=0)


def tempting_rms_norm_backward(dy, cache):
    return layer_norm_backward(dy, cache)[:2]    # layer norm's, with the mean still projected out


def solution_blind_start(rng):
    return rng.standard_normal((3, 5)), np.zeros((5, 3))      # x + 0 is x


def tempting_blind_start(rng):
    return rng.standard_normal((3, 5)), 1e-3 * rng.standard_normal((5, 3))


def saturated_start(rng):
    return np.full((3, 5), 1e6), rng.standard_normal((5, 3))    # W₀ never gets a gradient


solution(1, solution_rms_norm_backward, tempting_rms_norm_backward)
solution(2, solution_blind_start, tempting_blind_start, saturated_start)
