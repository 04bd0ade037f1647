"""Look at attention: a sentence as a picture, and how far each layer reaches (the paper's §2.3.2).

    python -m convsim_mini.evaluation.attention RUN "a sentence"
"""

import numpy as np

from ..cli import UserError, errors_in_one_line
from ..data.corpus import open_corpus
from ..data.text import tokenize
from ..model.transformer import attention_weights, transformer_forward
from ..run import check_corpus, load_run
from ..tables import table
from .command import parser_of
from .metrics import mean_interval
from .plots import plot_attention

SAMPLE = 2_000    # sentences of dev over which distances are averaged
BATCH = 200
CLAIM = "The paper sees nearby words in the first layer and more distant ones higher up. This run "


def weights_of(model, packed):
    """Attention on host sentences: for each layer a list of (sentences, heads, length, length)."""
    _, cache = transformer_forward(model.params, packed, model.config)
    return attention_weights(cache)


def distances(model, packed):
    """How far attention reaches in each sentence, and how far uniform attention would.

    The reach is Σ_j p_ij |i − j|, averaged over the words i and the heads. Uniform attention has
    the same p_ij everywhere. Within each 200, sentences are in the order of their lengths.

    packed: B sentences on the host → (layers, B), and (B,) of uniform attention
    """
    layers, uniform = [], []
    for first in range(0, len(packed.lengths), BATCH):
        part = packed.part(first, min(first + BATCH, len(packed.lengths)))
        weights = weights_of(model, part)
        places = [np.arange(p.shape[2]) for p in weights[0]]
        gaps = [np.abs(np.subtract.outer(place, place)) for place in places]
        layers.append([np.concatenate([(p * gap).sum(axis=3).mean(axis=(1, 2))
                                       for p, gap in zip(layer, gaps)]) for layer in weights])
        uniform += [np.full(len(p), gap.mean()) for p, gap in zip(weights[0], gaps)]
    return np.concatenate(layers, axis=1), np.concatenate(uniform)


def reach_on_dev(run):
    """`distances` of a Run on sentences of its corpus's dev split that have two words or more."""
    corpus = open_corpus(run.config)
    check_corpus(run, corpus)
    sample = np.arange(min(SAMPLE, 2 * corpus.dev.pairs))
    lengths = corpus.dev.offsets[sample + 1] - corpus.dev.offsets[sample]
    return distances(run.model, corpus.dev.sentences(sample[lengths > 1]))


def widening(reach):
    """How much further the last layer reaches than the first, in words: mean and 95% interval."""
    return mean_interval(reach[-1] - reach[0])


def summary(reach, uniform):
    """The table of mean distances, and what they say of the paper's claim."""
    rows = [[f"layer {k}", f"{layer.mean():.2f}"] for k, layer in enumerate(reach, start=1)]
    rows.append(["uniform: the same attention to every word", f"{uniform.mean():.2f}"])
    figures = table([f"mean distance in words, {len(uniform):,} sentences of dev", "reach"], rows)
    if len(reach) == 1:
        return (f"{figures}\n\n{CLAIM}has one layer, so there is nothing to compare; train one "
                "with --model.transformer_layers 2.")
    mean, low, high = widening(reach)
    verdict = "shows it" if low > 0 else "shows the opposite" if high < 0 else "does not show it"
    return (f"{figures}\n\n{CLAIM}{verdict}: the last layer reaches {mean:+.2f} [{low:+.2f}, "
            f"{high:+.2f}] words beyond the first.")


@errors_in_one_line()
def main(argv=None):
    """The command: draw a sentence's attention, layers × heads, and print each layer's reach."""
    parser = parser_of("evaluation.attention", __doc__, help="the folder of a Transformer's run")
    parser.add_argument("sentence", help="what to draw")
    options = parser.parse_args(argv)
    run = load_run(options.run)
    if run.config.model.encoder != "transformer":
        raise UserError(f"{run.folder}: is the run of a DAN, which has no attention; train one "
                        "with --encoder transformer")
    tokens = tokenize(options.sentence)[:run.config.model.max_tokens] or [""]
    layers = weights_of(run.model, run.vocabulary.encode([options.sentence]))
    picture = run.folder / "attention.png"
    plot_attention(picture, tokens, np.concatenate([layer[0] for layer in layers]))
    print(f"{picture}\n\n{summary(*reach_on_dev(run))}")


if __name__ == "__main__":
    main()
