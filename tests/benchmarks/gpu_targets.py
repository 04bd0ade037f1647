"""What benchmark_gpu.py asks of ours beside PyTorch and cuBLAS, and how near it came."""

import statistics
from typing import NamedTuple


class Target(NamedTuple):
    """How much faster `mine` shall be than the best of `others`, or its share of their rate."""

    case: str
    mine: str
    others: tuple
    at_least: float
    share: bool = False

    def __str__(self):
        return f"{self.case}, {self.mine} against {' / '.join(self.others)}"


TARGETS = [
    Target("Transformer, 128 pairs", "ours tf32", ("torch padded",), 2.0),
    Target("Transformer, 128 pairs", "ours tf32",
           ("torch packed", "torch nested", "torch compiled"), 1.0),
    Target("Transformer, 1,024 pairs", "ours tf32", ("cublas",), 0.4, share=True),
    Target("DAN, 128 pairs", "ours tf32", ("torch bag",), 2.0),
    Target("DAN, 1,024 pairs", "ours tf32", ("torch bag",), 2.0),
    Target("encoding, DAN", "ours tf32", ("torch bag",), 1.5),
    Target("encoding, Transformer", "ours tf32", ("torch padded", "torch nested"), 1.5),
]


def judged(target, measured):
    """A Target beside what was measured for its case: → the result, the goal, whether reached.

    measured: name → [[seconds, operations a second] of each turn]. Without each contender's it is
    not known whether the goal is reached: None.
    """
    medians = {name: [statistics.median(values) for values in zip(*runs)]
               for name, runs in measured.items() if runs}
    others = {name: medians[name] for name in target.others if name in medians}
    goal = f"≥ {target.at_least:.0%}" if target.share else f"≥ {target.at_least:.1f}×"
    if target.mine not in medians or not others:
        return "not measured: see log.txt", goal, None
    seconds, rate = medians[target.mine]
    if target.share:
        (_, best), = others.values()
        value = rate / best
        return f"{value:.0%} of {best / 1e12:,.1f} TFLOP/s", goal, value >= target.at_least
    name = min(others, key=lambda name: others[name][0])
    value = others[name][0] / seconds
    missing = "".join(f"; {other} not measured" for other in target.others if other not in others)
    return (f"{value:.2f}×: {shown(seconds)} against {shown(others[name][0])} of {name}{missing}",
            goal, None if missing else value >= target.at_least)


def shown(seconds):
    """Seconds for a step or a sentence with a unit that fits."""
    return f"{1e3 * seconds:.2f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.2f} µs"
