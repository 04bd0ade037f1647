"""Solutions of lesson A, Counting.

1: "a" and "b" meet only each other, so their rows have no neighbour in common; "c" and "d" both
meet only "e". In the tempting ones "c" and "d" meet, or have no neighbour in common.
2: Multiply by M Mᵀ and make the columns orthonormal again, some dozen times. The QR keeps the first
column and takes from each later one what lies along those before it: so the second cannot turn into
the first. Without it all columns become u₁. The library multiplies twice and keeps 20 columns more.
"""

from prove import run_lesson, solution
import numpy as np

run_lesson(__file__)

solution(1, lambda: ["a b", "c e", "d e"], lambda: ["a b", "c e", "d f"],
         lambda: ["a b", "c d e"])


def by_products(M, k, rng, times=50, between=lambda x: np.linalg.qr(x)[0]):
    x = rng.standard_normal((len(M), k))
    for _ in range(times):
        x = between(M @ (M.T @ x))
    return x


def unit_columns(x):
    return x / np.linalg.norm(x, axis=0)


solution(2, by_products, lambda *given: by_products(*given, times=2),
         lambda *given: by_products(*given, between=unit_columns))
