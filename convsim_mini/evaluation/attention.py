"""Look at attention: a sentence as a picture, and how far each layer reaches (the paper's §2.3.2).

    python -m convsim_mini.evaluation.attention RUN "a sentence"
"""

import numpy as np
from matplotlib.figure import Figure

from ..common.cli import UserError, errors_in_one_line
from ..common.figures import save_figure
from ..common.tables import table
from ..core.model import ENCODERS
from ..core.text import tokenize
from ..training.run import load_run
from . import response
from .command import parser_of
from .metrics import mean_interval, verdict, with_interval

SAMPLE, AT_ONCE = 2_000, 200    # sentences of dev over which distances are averaged
CLAIM = "The paper sees nearby words in the first layer and more distant ones higher up. This run "
SAID = {"better than": "shows it", "worse than": "shows the opposite",
        "not told apart from": "does not show it"}


def distances(model, packed):
    """How far attention reaches in each sentence, and how far uniform attention would.

    The reach is Σ_j p_ij |i − j|, averaged over the words i and the heads. packed: B sentences on
    the host → (layers, B), and (B,) of uniform attention. Each 200 sentences are sorted by length.
    """
    reaches = []
    for first in range(0, len(packed.lengths), AT_ONCE):
        part = packed.part(first, min(first + AT_ONCE, len(packed.lengths)))
        weights = ENCODERS[model.config.encoder].attention(model, part)
        for of_layers in zip(*weights):       # sentences of one length
            positions = np.arange(of_layers[0].shape[2])
            gap = np.abs(np.subtract.outer(positions, positions))               # |i − j|
            reach = [(p * gap).sum(axis=3).mean(axis=(1, 2)) for p in of_layers]
            reaches.append([*reach, np.full(len(of_layers[0]), gap.mean())])
    *layers, uniform = np.concatenate(reaches, axis=1)
    return np.array(layers), uniform


def summary(reach, uniform):
    """The table of mean distances, and what they say of the paper's claim."""
    rows = [[f"layer {k}", f"{layer.mean():.2f}"] for k, layer in enumerate(reach, start=1)]
    rows.append(["uniform: the same attention to every word", f"{uniform.mean():.2f}"])
    figures = table([f"mean distance in words, {len(uniform):,} sentences of dev", "reach"], rows)
    if len(reach) == 1:
        return (f"{figures}\n\n{CLAIM}has one layer, so there is nothing to compare; train one "
                "with --model.transformer_layers 2.")
    gain = mean_interval(reach[-1] - reach[0])
    return (f"{figures}\n\n{CLAIM}{SAID[verdict(*gain[1:])]}: the last layer reaches "
            f"{with_interval(gain, '+.2f')} words beyond the first.")


def of_sentence(run, text):
    """The n tokens of a text that a Run reads; attention weights (layers, heads, n, n).

    The word of row i attends to the word of column j.
    """
    tokens = tokenize(text)[:run.config.model.max_tokens] or [""]
    attention = ENCODERS[run.config.model.encoder].attention
    weights = attention(run.model, run.vocabulary.encode([text]))
    return tokens, np.concatenate([layer[0] for layer in weights])


def plot(path, tokens, weights):
    """Who attends to whom, rows to columns, as a grid: weights: (layers, heads, n, n)."""
    layers, heads, n, _ = weights.shape
    cell = min(max(1.6, 0.16 * n), 8)    # inches; long sentences become small print
    figure = Figure(figsize=(heads * cell + 1, layers * cell + 1), layout="constrained")
    grid = figure.subplots(layers, heads, squeeze=False, sharex=True, sharey=True)
    for (layer, head), axes in np.ndenumerate(grid):
        axes.imshow(weights[layer, head], vmin=0, vmax=1, cmap="Blues")
        axes.set_xticks(range(n), tokens, rotation=90, fontsize=7)
        axes.set_yticks(range(n), tokens, fontsize=7)
        axes.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=8)
    figure.suptitle("Attention: each row's word looks at the columns' words", fontsize=9)
    save_figure(figure, path)


@errors_in_one_line()
def main(argv=None):
    """The command: draw a sentence's attention, layers × heads, and print each layer's reach."""
    parser = parser_of("evaluation.attention", __doc__, help="the folder of a Transformer's run")
    parser.add_argument("sentence", help="what to draw")
    options = parser.parse_args(argv)
    run = load_run(options.run)
    encoder = ENCODERS[run.config.model.encoder]
    if not encoder.attention:
        raise UserError(f"{run.folder}: is the run of a {encoder.short}, which has no attention; "
                        "train one with --encoder transformer")
    picture = run.folder / "attention.png"
    plot(picture, *of_sentence(run, options.sentence))
    dev = response.find(None, run)["test"].dev
    lengths = np.diff(dev.offsets[:SAMPLE + 1])
    longer = dev.sentences(np.flatnonzero(lengths > 1))
    print(f"{picture}\n\n{summary(*distances(run.model, longer))}")


if __name__ == "__main__":
    main()
