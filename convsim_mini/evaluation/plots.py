"""The figures, drawn without a display."""

from matplotlib.figure import Figure

from ..figures import new_figure, save_figure

COLOURS = {"captions": "tab:blue", "forums": "tab:orange", "news": "tab:green"}


def plot_sts(path, split, sts, scores, r):
    """Predicted score against people's score, a point for each pair (the paper's figure 7)."""
    figure, axes = new_figure()
    for genre, colour in COLOURS.items():
        of_genre = sts.genres == genre
        axes.scatter(sts.labels[of_genre], scores[of_genre], s=12, alpha=0.5, color=colour,
                     label=genre, linewidths=0)
    axes.set(xlabel="people's score (0 unrelated … 5 the same)", ylabel="5 (1 − arccos(cos)/π)",
             title=f"STS {split}: Pearson's r = {r:.3f} over {len(scores):,} pairs")
    axes.legend(loc="lower right")
    save_figure(figure, path)


def plot_attention(path, tokens, weights):
    """Who attends to whom: a grid of layers × heads.

    weights: (layers, heads, n, n), rows attend to columns.
    """
    layers, heads, n, _ = weights.shape
    cell = min(max(1.6, 0.16 * n), 8)    # inches; long sentences become small print
    figure = Figure(figsize=(heads * cell + 1, layers * cell + 1), layout="constrained")
    grid = figure.subplots(layers, heads, squeeze=False, sharex=True, sharey=True)
    for k, row in enumerate(grid):
        for head, axes in enumerate(row):
            axes.imshow(weights[k, head], vmin=0, vmax=1, cmap="Blues")
            axes.set_xticks(range(n), tokens, rotation=90, fontsize=7)
            axes.set_yticks(range(n), tokens, fontsize=7)
            axes.set_title(f"layer {k + 1}, head {head + 1}", fontsize=8)
    figure.suptitle("Attention: each row's word looks at the columns' words", fontsize=9)
    save_figure(figure, path)
