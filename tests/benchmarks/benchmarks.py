"""The speed table of tests/README.md, measured again.

    CONVSIM_DATA=DIR python tests/benchmarks/benchmarks.py

All contenders of benchmark_dan.py, benchmark_transformer.py and benchmark_text.py in one run, which
takes half an hour on two cores. Children run without OPENBLAS_CORETYPE, so that OpenBLAS chooses
the kernels that suit the processor. Needs torch, threadpoolctl and what benchmark_text.py needs.
"""

import argparse
import json
import os
import subprocess
import sys

import benchmark_dan    # first: it makes the repository's folder known
import benchmark_text
import benchmark_transformer

from convsim_mini.common.tables import markdown

HEADERS = ["task", "contender", "time", "peak memory", "of sgemm", "its time / ours"]


def architecture():
    """The kernels that NumPy's OpenBLAS chooses here, and its rate at 2048³ in GFLOP/s."""
    import numpy  # noqa: F401  (loads the library)
    from threadpoolctl import threadpool_info

    return (next(pool["architecture"] for pool in threadpool_info() if "architecture" in pool),
            benchmark_transformer.sgemm() / 1e9)


def in_environment(**variables):
    """`architecture` in a process of its own with these environment variables, and no others."""
    code = "import json, benchmarks; print(json.dumps(benchmarks.architecture()))"
    run = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE,
                         cwd=os.path.dirname(os.path.abspath(__file__)),
                         env={**os.environ, **variables})
    return json.loads(run.stdout)


def rows(task, measured, unit, share=lambda name: ""):
    """Table rows of one task: measured: contender → (time, …, peak MB); the first one is ours."""
    ours = next(iter(measured.values()))[0]
    return [[task, name, f"{time:,.3g} {unit}", f"{peak:,.0f} MB", share(name),
             f"{time / ours:.2f}"] for name, (time, *_, peak) in measured.items()]


def transformer(rounds):
    table = []
    for task in benchmark_dan.TASKS:
        for similar in (False, True):
            measured, padding = benchmark_transformer.measure(task, similar, 128, rounds)
            *_, rate = measured.pop("sgemm")
            name = f"Transformer, {task}, 128 pairs, {padding:.0%} padding"
            table += rows(name, {key: (s, peak) for key, (s, peak, _) in measured.items()}, "s",
                          lambda key: f"{measured[key][2] / rate:.0%}")
    return table


def dan(rounds):
    return [row for task in benchmark_dan.TASKS for size in (128, 1024)
            for row in rows(f"DAN, {task}, {size:,} pairs",
                            benchmark_dan.measure(task, size, rounds), "ms")]


def text(lines, rounds):
    seconds, sentences = benchmark_text.preparing()
    return [*rows(f"text to vectors of {benchmark_text.WIDTH}, {lines:,} lines",
                  benchmark_text.peers(lines, rounds), "µs a line"),
            [f"preparing {sentences:,} sentences", "convsim_mini", f"{seconds:.1f} s", "", "", ""]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=1_000_000)
    options = parser.parse_args()
    forced = os.environ.pop(benchmark_dan.CORETYPE, None)
    print("OpenBLAS: {}, {:.0f} GFLOP/s at 2048³ (sgemm)".format(*in_environment()))
    if forced:
        print("with {}={}: {}, {:.0f} GFLOP/s".format(
            benchmark_dan.CORETYPE, forced, *in_environment(**{benchmark_dan.CORETYPE: forced})))
    table = dan(options.rounds) + text(options.lines, options.rounds) + transformer(options.rounds)
    print(markdown(HEADERS, table))


if __name__ == "__main__":
    main()
