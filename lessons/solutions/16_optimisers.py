"""Solutions of lesson 16, Optimisers.

1: At the limit z = −1: 1 + (1 + μ − ηλ) + μ = 0, so η = 2 (1 + μ)/λ. Momentum *raises* SGD's
limit. The tempting 2 (1 − μ)/λ keeps the sum of the steps, η/(1 − μ), at SGD's limit.
2: With h_k = √(0.999ᵏ) g_k, s is 0.001 ‖h‖² and m the product of h with 0.1 (0.9/√0.999)ᵏ. By
Cauchy and Schwarz m/√s is largest if both are parallel: g_k = (0.9/0.999)ᵏ, gradients that grow by
11% in each step. It is (0.1/√0.001)/√(1 − 0.81/0.999) = 7.27. One spike after silence makes
3.16, twelve equal gradients 6.57, as without the corrections above.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)

solution(1, lambda curvature, mu: 2 * (1 + mu) / curvature,
         lambda curvature, mu: 2 * (1 - mu) / curvature,
         lambda curvature, mu: 2.01 * (1 + mu) / curvature)   # half a per cent too high

k = np.arange(5000)[::-1]    # steps ago
solution(2, lambda: (0.9 / 0.999) ** k, lambda: np.ones(5000), lambda: k == 0, lambda: k < 12,
         lambda: 0.9 ** (2 * k))
