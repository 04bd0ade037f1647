"""Solutions of lesson 16, Optimisers.

1: At the limit z = −1: 1 + (1 + μ − ηλ) + μ = 0, so η = 2 (1 + μ)/λ. Momentum *raises* SGD's
limit. The tempting 2 (1 − μ)/λ keeps the sum of the steps, η/(1 − μ), at SGD's limit.
"""

from prove import run_lesson, solution

run_lesson(__file__)

solution(1, lambda curvature, mu: 2 * (1 + mu) / curvature,
         lambda curvature, mu: 2 * (1 - mu) / curvature,
         lambda curvature, mu: 2.01 * (1 + mu) / curvature)   # half a per cent too high
