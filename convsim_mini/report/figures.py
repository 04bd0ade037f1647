"""The report's figures, drawn from what page.py has chosen."""

import numpy as np

from ..common.figures import new_figure, save_figure
from ..evaluation import sts


def figure_7(path, name, pairs, similarity):
    """Predicted score against people's score, one point for each pair of an Sts."""
    scores, (r, *_) = sts.score_0_to_5(similarity), sts.figures(pairs, similarity)["r"]
    figure, axes = new_figure()
    for genre in np.unique(pairs.genres):
        of_genre = pairs.genres == genre
        axes.scatter(pairs.labels[of_genre], scores[of_genre], s=12, alpha=0.5, label=genre,
                     linewidths=0)
    axes.set(xlabel="people's score (0 unrelated … 5 the same)", ylabel="5 (1 − arccos(cos)/π)",
             title=f"STS {name}: Pearson's r × 100 = {r:.1f} over {len(scores):,} pairs")
    axes.legend(loc="lower right")
    save_figure(figure, path)


def figure_8(path, percentages, curves):
    """r × 100 against the percentage of the NLI data; curves: name → (value, low, high) of each."""
    figure, axes = new_figure()
    for name, curve in curves.items():
        axes.plot(percentages, [value for value, *_ in curve], "o-", label=name)
    axes.set(xlabel="NLI data used in multitask training (%; 0: only conversations)",
             ylabel="Pearson's r × 100", title="STS Benchmark against the amount of NLI data")
    axes.legend()
    save_figure(figure, path)
