#!/usr/bin/env bash
# Guess: a word that occurs once, 3,000 steps after the start, is moved by about one learning rate
# by Adam, as it is by Adagrad; sparse or dense is a matter of speed.
# Truth: 31 learning rates by Adam (3.1 in its step, the rest by momentum in the steps after it,
# which do not see the word), 10 by RMSprop, 3.1 by SparseAdam, 1 by Adagrad: the mean of its
# squares has had one step to grow from 0, and the correction of the first steps is long over.
# amsgrad changes nothing.
# torch 2.13.0 on a CPU, November 2026. Half a minute.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 torch==2.13.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import torch

torch.set_num_threads(1)

def moved(optimiser, sparse=False, **options):
    """How far the rare row, whose only gradient is 1, is moved in 4,000 steps, in learning rates."""
    table = torch.nn.Embedding(2, 1, sparse=sparse)
    torch.nn.init.zeros_(table.weight)
    steps = optimiser(list(table.parameters()), lr=1e-3, **options)
    for step in range(4000):
        steps.zero_grad()
        table(torch.tensor([0, 1] if step == 3000 else [0])).sum().backward()
        steps.step()
    return -table.weight[1].item() / 1e-3

optim = torch.optim
found = {"Adam": moved(optim.Adam), "Adam, amsgrad": moved(optim.Adam, amsgrad=True),
         "RMSprop": moved(optim.RMSprop), "SparseAdam": moved(optim.SparseAdam, sparse=True),
         "Adagrad": moved(optim.Adagrad, sparse=True)}
print(*(f"{name}: {rates:.1f} learning rates" for name, rates in found.items()), sep="\n")
assert min(found["Adam"], found["Adam, amsgrad"]) > 25 and 9 < found["RMSprop"] < 11
assert 2.9 < found["SparseAdam"] < 3.3 and abs(found["Adagrad"] - 1) < 1e-3
PYTHON
