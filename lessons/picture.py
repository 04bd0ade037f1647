"""The README's picture: how often the true reply is picked among 100, before and after training.

    python lessons/picture.py RUN      (a run of the default command; draws lessons/picture.png)
"""

import sys

from lesson import HERE, plt

from convsim_mini.evaluation import response
from convsim_mini.evaluation.metrics import per_cent
from convsim_mini.training.run import load_run

BARS = {"picking at random": "random", "before training": "before training",
        "TF-IDF, without training": "TF-IDF cosine", "after training": "trained"}


def main(folder):
    """Draw P@1 on the test split of a run's corpus as bars with 95% intervals."""
    run = load_run(folder)
    test = response.read(*response.find(None, run).values())
    ranks = response.scores(run, test) | response.baselines(run, test)
    found = {row: per_cent(some == 1) for row, some in ranks.items()} | {
        "random": (1.0, 1.0, 1.0)}
    figure, axes = plt.subplots(figsize=(7.5, 2.6))
    for place, (name, row) in enumerate(BARS.items()):
        value, low, high = found[row]
        axes.barh(place, value, color="tab:blue" if row == "trained" else "0.75",
                  xerr=[[value - low], [high - value]], capsize=3)
        axes.text(high + 0.4, place, f"{value:.1f}%", va="center")
    axes.set_yticks(range(len(BARS)), BARS)
    axes.invert_yaxis()
    axes.set_xlim(0, 38)
    axes.set_xlabel(f"true reply ranks first of 100: % of {len(test.pairs):,} new messages")
    axes.grid(visible=False, axis="y")
    figure.savefig(HERE / "picture.png", dpi=110, bbox_inches="tight")
    print(HERE / "picture.png")


if __name__ == "__main__":
    main(sys.argv[1])
