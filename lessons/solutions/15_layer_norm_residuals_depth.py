"""Solutions of lesson 15, Layer norm, residuals, depth.

1: Stretching x leaves y as it is, so the part along x̂ is projected out; adding a constant does
not, so the mean stays. Layer norm's backward takes the mean away as well.
"""

from prove import run_lesson, solution

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


solution(1, solution_rms_norm_backward, tempting_rms_norm_backward)
