"""Solutions of lesson 13, Timing signal.

1: sin(a + b) and cos(a + b) need the sine and cosine of the same hand, which are half a row
apart here. Taking them from neighbouring channels is the layout of Vaswani et al.
2: A hand is back after 2π t positions. Hands that are back after 5 and 7 are both back after 35 and
not before. Two that take 35 are too slow; t = 5 and 7 are back after 31 and 44.
"""

from prove import run_lesson, solution
import numpy as np

timing_signal = run_lesson(__file__).timing_signal


def solution_wind(rows, steps):
    half = rows.shape[1] // 2
    turn = steps / 10_000 ** (np.arange(half) / (half - 1))
    sines, cosines = rows[:, :half], rows[:, half:]
    return np.concatenate([sines * np.cos(turn) + cosines * np.sin(turn),
                           cosines * np.cos(turn) - sines * np.sin(turn)], axis=1)


def tempting_wind(rows, steps):
    half = rows.shape[1] // 2
    turn = steps / 10_000 ** (np.arange(half) / (half - 1))
    sines, cosines = rows[:, ::2], rows[:, 1::2]              # the layout of Vaswani et al.
    found = np.empty_like(rows)
    found[:, ::2] = sines * np.cos(turn) + cosines * np.sin(turn)
    found[:, 1::2] = cosines * np.cos(turn) - sines * np.sin(turn)
    return found


def looked_up(rows, steps):
    """It searches for the position among whole numbers: it knows p."""
    known = timing_signal(1_000, rows.shape[1], np.float64)
    places = np.argmax(rows @ known.T, axis=1)
    return known[places + steps]


solution(1, solution_wind, tempting_wind, looked_up)
solution(2, lambda: np.array([5, 7]) / (2 * np.pi), lambda: [5.0, 7.0],
         lambda: np.array([35, 35]) / (2 * np.pi))
