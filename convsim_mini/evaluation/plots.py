"""The figures, drawn without a display."""

import numpy as np
from matplotlib.figure import Figure

from ..data.snli import LABELS
from ..files import replace_file

COLOURS = {"captions": "tab:blue", "forums": "tab:orange", "news": "tab:green"}


def plot_sts(path, split, sts, scores, r):
    """Predicted score against people's score, a point for each pair (the paper's figure 7)."""
    figure, axes = _figure()
    for genre, colour in COLOURS.items():
        some = sts.genres == genre
        axes.scatter(sts.labels[some], scores[some], s=12, alpha=0.5, color=colour, label=genre, linewidths=0)
    axes.set(xlabel="people's score (0 unrelated … 5 the same)", ylabel="5 (1 − arccos(cos)/π)",
             title=f"STS {split}: Pearson's r = {r:.3f} over {len(scores):,} pairs")
    axes.legend(loc="lower right")
    _save(figure, path)


def plot_loss(path, records, batch_size):
    """Training loss of each task against steps, beside the loss of picking at random."""
    figure, axes = _figure()
    for task, name, choices in (("loss", "replies", batch_size), ("nli_loss", "NLI", len(LABELS))):
        some = [record for record in records if task in record]
        if some:
            axes.plot([record["step"] for record in some], [record[task] for record in some], linewidth=1, label=name)
            axes.axhline(np.log(choices), color="grey", linestyle=":")
            axes.annotate(f"picking at random: ln {choices:,}", (records[-1]["step"], np.log(choices)), (0, 4),
                          textcoords="offset points", ha="right", color="grey")
    axes.legend()
    axes.set(xlabel="step", ylabel="loss (nats per pair)", title="Loss on training batches")
    _save(figure, path)


def plot_precision(path, records):
    """P@N on dev against steps."""
    figure, axes = _figure()
    for n in records[0]["dev"]:
        axes.plot([record["step"] for record in records], [record["dev"][n] for record in records], "o-",
                  label=f"P@{n}  (at random: {n}%)")
    axes.set(xlabel="step", ylabel="true reply among the best N of 100 (%)", ylim=(0, None),
             title="Picking the true reply, on dev")
    axes.legend()
    _save(figure, path)


def plot_accuracy(path, records):
    """NLI's accuracy on dev against steps."""
    figure, axes = _figure()
    axes.plot([record["step"] for record in records], [record["nli"] for record in records], "o-")
    axes.axhline(100 / len(LABELS), color="grey", linestyle=":")
    axes.annotate("at random", (records[-1]["step"], 100 / len(LABELS)), (0, 4), textcoords="offset points", ha="right",
                  color="grey")
    axes.set(xlabel="step", ylabel="right of three classes (%)", title="Natural language inference, on dev")
    _save(figure, path)


def plot_fractions(path, curves):
    """r against the share of the NLI data (the paper's figure 8); curves: name → {per cent: r × 100}."""
    figure, axes = _figure()
    for name, curve in curves.items():
        axes.plot(list(curve), list(curve.values()), "o-", label=name)
    axes.set(xlabel="NLI data used in multitask training (%; 0: conversations alone)", ylabel="Pearson's r × 100",
             title="STS Benchmark against the amount of NLI data")
    axes.legend()
    _save(figure, path)


def plot_attention(path, tokens, weights):
    """Who attends to whom: a grid of layers × heads. weights: (layers, heads, n, n), rows attend to columns."""
    layers, heads, n, _ = weights.shape
    cell = min(max(1.6, 0.16 * n), 8)                         # inches; long sentences become small print
    figure = Figure(figsize=(heads * cell + 1, layers * cell + 1), layout="constrained")
    grid = figure.subplots(layers, heads, squeeze=False, sharex=True, sharey=True)
    for k, row in enumerate(grid):
        for head, axes in enumerate(row):
            axes.imshow(weights[k, head], vmin=0, vmax=1, cmap="Blues")
            axes.set_xticks(range(n), tokens, rotation=90, fontsize=7)
            axes.set_yticks(range(n), tokens, fontsize=7)
            axes.set_title(f"layer {k + 1}, head {head + 1}", fontsize=8)
    figure.suptitle("Attention: each row's word looks at the columns' words", fontsize=9)
    _save(figure, path)


def _figure():
    figure = Figure(figsize=(6, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.grid(alpha=0.3)
    return figure, axes


def _save(figure, path):
    replace_file(path, lambda temporary: figure.savefig(temporary, format="png", dpi=120))
