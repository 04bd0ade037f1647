"""How far does the attention of each layer reach? (the paper's §2.3.2)

    python -m convsim_mini.evaluation.attention RUN
"""

import numpy as np

from ..common.cli import UserError, errors_in_one_line
from ..core.model import ENCODERS
from ..training.run import load_run
from . import response
from .command import parser_of
from .metrics import difference, without_interval
from .results import cell, grid

SAMPLE, AT_ONCE = 2_000, 200    # sentences of dev: in all, and in each group


def distances(model, packed):
    """How far attention reaches in each sentence, and how far uniform attention would reach.

    The reach is Σ_j p_ij |i − j|, averaged over pieces i and heads. packed: B sentences on the host
    → (layers, B), and (B,) for uniform attention; sorted by length within each 200 sentences
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
    """The table of mean distances; with several layers, also the last one's minus the first's."""
    metric = f"mean distance in pieces, {len(uniform):,} sentences of dev"
    rows = {f"layer {k}": layer for k, layer in enumerate(reach, start=1)}
    rows |= {"uniform: the same attention to every piece": uniform}
    text = grid({row: {metric: without_interval(x.mean())} for row, x in rows.items()}, form=".2f")
    if len(reach) > 1:
        gain = cell(difference(np.mean, reach[-1], reach[0]), "+.2f")
        text += ("\n\nIn the paper, the first layer attends to nearby words and higher layers to "
                 f"more distant ones. Here, the last layer reaches {gain} pieces further.")
    return text


@errors_in_one_line()
def main(argv=None):
    """The command: print how far each layer reaches."""
    parser = parser_of("evaluation.attention", __doc__, help="the folder of a Transformer's run")
    run = load_run(parser.parse_args(argv).run)
    encoder = ENCODERS[run.config.model.encoder]
    if not encoder.attention:
        raise UserError(f"{run.folder}: is a run of a {encoder.short}, which has no attention; "
                        "train a run with --encoder transformer")
    dev = response.find(None, run)["test"].dev
    lengths = np.diff(dev.offsets[:SAMPLE + 1])
    longer = dev.sentences(np.flatnonzero(lengths > 1))
    print(summary(*distances(run.model, longer)))


if __name__ == "__main__":
    main()
