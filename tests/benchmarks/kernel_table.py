"""What the kernels move and compute in a step, how long an H200 needs.

    python tests/benchmarks/kernel_table.py

Arithmetic, nothing is measured: the paper's Transformer, float32 (products in TF32), with dropout,
SGD, 128 Reddit pairs. A time is that of the busiest of memory, of arithmetic and of shared memory,
and 2 µs a launch.
"""

import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

# An H200: bytes a second of memory; float32 operations a second; multiprocessors times clock, each
# of which reads 32 numbers of shared memory in a cycle; a launch's start and end. PRODUCTS assumes
# 40% of TF32's peak: 512 columns make 176 tiles for 132 multiprocessors.
MEMORY, FLOPS, SHARED, LAUNCH = 4.8e12, 67e12, 132 * 1.755e9, 2e-6
PRODUCTS = 0.4 * 494e12

# Means of 70 batches: words, sentences, Σ n² over sentences of n words, distinct words; four words
# beside a tile of 32, as attention takes them, in a head.
N, B, SQUARES, DISTINCT, ROUNDS = 5635, 256, 191_396, 1654, 2310
LAYERS, d, HIDDEN, HEADS, e = 6, 512, 2048, 8, 500
DENSE = LAYERS * (4 * d * d + 2 * d * HIDDEN)                 # weights that every word passes
PARAMETERS = DENSE + d * e + 2 * e * e
PRODUCT_FLOP = 6 * DENSE * N                                  # forward, and twice backward
WORDS, SCORES = N * d, 128 * 128                              # numbers of two kinds of arrays
WIDE = 5 * WORDS + N * HIDDEN    # what a layer's products give: q, k, v; attention; hidden; back


class Work(NamedTuple):
    """What a kernel's launches of one step do: numbers moved; flop; reads of shared memory."""

    launches: int
    numbers: int
    flop: int = 0
    reads: int = 0

    @property
    def seconds(self):
        return self.launches * LAUNCH + max(4 * self.numbers / MEMORY, self.flop / FLOPS,
                                            self.reads / SHARED)


STEP = {    # what one step starts
    "bias_activation": Work(27, LAYERS * 2 * WIDE, LAYERS * 2 * WIDE),
    "bias_activation_backward": Work(27 + 37, LAYERS * (5 * WORDS + 3 * N * HIDDEN),
                                     LAYERS * (WIDE + 2 * N * HIDDEN)),
    "norm_weights_backward": Work(13, 13 * 2 * WORDS, 13 * 3 * WORDS),
    "add_norm_forward": Work(13, 12 * 5 * WORDS + 3 * WORDS, 13 * 9 * WORDS),
    "add_norm_backward": Work(13, 13 * 5 * WORDS, 13 * 12 * WORDS),
    "attention_forward": Work(6, LAYERS * 4 * WORDS, LAYERS * 4 * d * SQUARES, LAYERS * HEADS *
                              (ROUNDS * 2 * 64 + 3 * SQUARES // 4)),
    "attention_backward": Work(6, LAYERS * 8 * WORDS, LAYERS * 14 * d * SQUARES, LAYERS * HEADS *
                               (ROUNDS * 8 * 64 + 9 * SQUARES // 4)),
    "placed_embedding_forward": Work(1, 2 * WORDS, 3 * WORDS),
    "dropout": Work(1, 2 * WORDS, WORDS),
    "mean_pool_forward": Work(1, WORDS, WORDS),
    "mean_pool_backward": Work(1, WORDS, WORDS),
    "update_rows": Work(1, WORDS + 2 * DISTINCT * d, WORDS + 2 * DISTINCT * d),
    "l2_normalize_forward": Work(1, 2 * B * e, 3 * B * e),
    "l2_normalize_backward": Work(1, 3 * B * e, 4 * B * e),
    "softmax_rows": Work(1, 2 * SCORES, 5 * SCORES),
    "softmax_rows_backward": Work(1, 2 * SCORES, 2 * SCORES),
    "sgd": Work(1, 3 * PARAMETERS, 2 * PARAMETERS),
}
OTHERS = {    # a launch where a run has it: a DAN of 300 numbers; Adam; masked replies
    "word_bag_forward": Work(1, (2 * N - B) * 300 + 2 * (2 * N - B) + N, (2 * N - B) * 300),
    "adam": Work(1, 7 * PARAMETERS, 12 * PARAMETERS),
    "mask_scores": Work(1, 128),
}


if __name__ == "__main__":
    from convsim_mini.common.tables import markdown
    print(markdown(["kernel", "launches", "MB", "MFLOP", "µs"], [
        [name, work.launches if name in STEP else "", f"{4e-6 * work.numbers:,.1f}",
         f"{1e-6 * work.flop:,.1f}", f"{1e6 * work.seconds:,.0f}"]
        for name, work in (STEP | OTHERS).items()]))
    print(f"\n{1e-9 * PRODUCT_FLOP:,.0f} GFLOP in products: "
          f"{1e3 * PRODUCT_FLOP / PRODUCTS:.1f} ms; our kernels: "
          f"{1e3 * sum(work.seconds for work in STEP.values()):.1f} ms")
