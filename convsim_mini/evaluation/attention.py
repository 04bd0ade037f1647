"""Look at attention: one sentence as a picture, and how far each layer reaches (the paper's §2.3.2).

    python -m convsim_mini.evaluation.attention RUN "a sentence"
"""

from pathlib import Path

import numpy as np

from ..cli import UserError, run_command
from ..data.corpus import open_corpus
from ..data.text import tokenize
from ..model.transformer import attention_weights, transformer_forward
from ..run import check_corpus, load_run
from ..tables import table
from .metrics import Z95
from .plots import plot_attention

SAMPLE = 2_000    # sentences of dev over which distances are averaged
BATCH = 200


def weights_of(model, packed):
    """Attention of every layer on host sentences: a list of lists of (sentences, heads, length, length)."""
    _, cache = transformer_forward(model.params, packed, model.config)
    return attention_weights(cache)


def distances(model, packed):
    """How far attention reaches in each sentence: Σ_j p_ij |i − j|, averaged over its words i and the heads.

    packed: B sentences on the host → (layers, B), and (B,) of attention that is the same
    everywhere. Within each 200, sentences are in the order of their lengths.
    """
    layers, uniform = [], []
    for first in range(0, len(packed.lengths), BATCH):
        runs = weights_of(model, packed.part(first, min(first + BATCH, len(packed.lengths))))
        apart = [np.abs(np.subtract.outer(np.arange(p.shape[2]), np.arange(p.shape[2]))) for p in runs[0]]
        layers.append([np.concatenate([(p * gap).sum(axis=3).mean(axis=(1, 2)) for p, gap in zip(layer, apart)])
                       for layer in runs])
        uniform += [np.full(len(p), gap.mean()) for p, gap in zip(runs[0], apart)]
    return np.concatenate(layers, axis=1), np.concatenate(uniform)


def reach_on_dev(run):
    """What `distances` says of a Run on sentences of its corpus's dev split that have two words or more."""
    corpus = open_corpus(run.config)
    check_corpus(run, corpus)
    sample = np.arange(min(SAMPLE, 2 * corpus.dev.pairs))
    packed = corpus.dev.sentences(sample[corpus.dev.offsets[sample + 1] - corpus.dev.offsets[sample] > 1])
    return distances(run.model, packed)


def widening(reach):
    """How much further the last layer reaches than the first, in words: mean and its 95% interval."""
    difference = reach[-1] - reach[0]
    half = Z95 * difference.std(ddof=1) / np.sqrt(len(difference))
    return difference.mean(), difference.mean() - half, difference.mean() + half


def report(reach, uniform):
    """The table of mean distances, and what they say of the paper's claim."""
    rows = [[f"layer {k}", f"{some.mean():.2f}"] for k, some in enumerate(reach, start=1)]
    rows.append(["the same attention to every word", f"{uniform.mean():.2f}"])
    lines = [table([f"mean distance in words, {len(uniform):,} sentences of dev", "reach"], rows)]
    if len(reach) > 1:
        mean, low, high = widening(reach)
        verdict = "shows it" if low > 0 else "shows the opposite" if high < 0 else "does not show it"
        lines.append(f"The paper sees nearby words in the first layer and more distant ones higher up. This run {verdict}: "
                     f"the last layer reaches {mean:+.2f} [{low:+.2f}, {high:+.2f}] words beyond the first.")
    else:
        lines.append("The paper sees nearby words in the first layer and more distant ones higher up. This run has one layer, "
                     "so there is nothing to compare; train one with --model.transformer_layers 2.")
    return "\n\n".join(lines)


def main(run: Path, sentence: str):
    """Draw the attention of a sentence, layers × heads, and print how far each layer's reaches.

    Args:
        run: the folder of a Transformer's run
        sentence: what to draw
    """
    loaded = load_run(run)
    if loaded.config.model.encoder != "transformer":
        raise UserError(f"{run}: is the run of a DAN, which has no attention; train one with --encoder transformer")
    tokens = tokenize(sentence)[:loaded.config.model.max_tokens] or [""]
    layers = weights_of(loaded.model, loaded.vocabulary.encode([sentence]))
    picture = loaded.folder / "attention.png"
    plot_attention(picture, tokens, np.concatenate([layer[0] for layer in layers]))
    print(f"{picture}\n")
    print(report(*reach_on_dev(loaded)))


if __name__ == "__main__":
    run_command(main)
