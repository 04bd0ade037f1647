"""The README's picture: scores of eight messages and eight replies before and after training.

    python lessons/picture.py RUN      (a run of the default command; draws lessons/picture.png)

The pairs are the first eight of the test split whose sides have 4 to 9 words, none twice.
"""

import sys

import numpy as np
from lesson import HERE, plt

from convsim_mini.data.prepare import open_corpus
from convsim_mini.evaluation.response import vectors
from convsim_mini.training.initial import initial_model
from convsim_mini.training.run import load_run

PAIRS, SHORTEST, LONGEST = 8, 4, 9


def choose(split):
    """The numbers of the first eight short pairs of a Split, no side of which is there twice."""
    lengths = np.diff(split.offsets).reshape(-1, 2)
    short = np.flatnonzero(((lengths >= SHORTEST) & (lengths <= LONGEST)).all(axis=1))
    chosen, seen = [], set()
    for pair in short:
        keys = set(split.keys[pair].tolist())
        if len(chosen) < PAIRS and len(keys) == 2 and not keys & seen:
            chosen.append(pair)
            seen |= keys
    return np.array(chosen)


def main(folder):
    """Draw both score matrices side by side, the true replies on the diagonal."""
    run = load_run(folder)
    corpus = open_corpus(run.config, run.vocabulary)
    pairs = choose(corpus.test)
    texts = [[" ".join(map(run.vocabulary.token, corpus.test.sentences(np.array([sentence])).ids))
              for sentence in 2 * pairs + side] for side in (0, 1)]
    figure, panels = plt.subplots(1, 2, figsize=(12.5, 5.2), sharey=True)
    for axes, model, title in zip(panels, (initial_model(run.config, corpus), run.model),
                                  ("before training", f"after {run.step:,} steps")):
        u, v = vectors(model, corpus.test, pairs)
        scores = u @ v.T
        axes.imshow(scores, cmap="Blues", vmin=0, vmax=0.7)
        axes.grid(False)
        for row, column in np.ndindex(scores.shape):
            best = column == scores[row].argmax()
            axes.text(column, row, f"{scores[row, column]:.2f}".replace("0.", "."), fontsize=8,
                      ha="center", va="center", weight="bold" if best else "normal",
                      color="white" if scores[row, column] > 0.45 else "black")
            if row == column:
                axes.add_patch(plt.Rectangle((row - 0.5, row - 0.5), 1, 1, fill=False, lw=2,
                                             edgecolor="tab:orange"))
        right = int((scores.argmax(axis=1) == np.arange(PAIRS)).sum())
        axes.set_title(f"{title}: {right} of {PAIRS} true replies score highest")
        axes.set_xticks(range(PAIRS), texts[1], rotation=38, ha="right", fontsize=8)
        axes.set_yticks(range(PAIRS), texts[0], fontsize=8)
    panels[0].set_ylabel("message")
    figure.supxlabel("reply (the true one is framed)", fontsize=10)
    figure.savefig(HERE / "picture.png", dpi=110)
    print(HERE / "picture.png")


if __name__ == "__main__":
    main(sys.argv[1])
