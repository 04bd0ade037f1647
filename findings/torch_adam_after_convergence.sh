#!/usr/bin/env bash
# Guess: two small encoders know 128 pairs by heart, the loss is 1e-7, the gradients vanish: more
# steps of Adam change next to nothing; if they do, AdamW's decay or eps=1e-6 helps.
# Truth: in float32 the loss jumps about every 20,000 steps above that of untrained encoders (4.9),
# and most pairs are lost for some tens of steps; in AdamW too; with eps=1e-6 first at step 40,000.
# With amsgrad=True or in float64 it never does, in 250,000 steps. At 1e-7 the float32 gradient is
# mostly rounding error (its cosine with that of float64 is 0.1), and Adam divides it by its size.
# Keep the best step, not the last.
# torch 2.13.0 (CPU), November 2026. Twelve to sixteen minutes of one core.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 torch==2.13.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import time

import torch
from torch import nn

torch.set_num_threads(1)

def after_convergence(name, optimiser, steps, dtype=torch.float32, seed=0, **options):
    """The highest loss and the lowest accuracy of the batch after the loss first fell below 1e-5."""
    torch.manual_seed(seed)
    messages, replies = torch.randn(2, 128, 32, dtype=dtype)
    towers = [nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32)).to(dtype) for _ in range(2)]
    optimiser = optimiser([p for tower in towers for p in tower.parameters()], lr=1e-3, foreach=True, **options)
    own = torch.arange(128)
    learnt, highest, lowest, rises = None, 0.0, 1.0, []
    for step in range(steps):
        scores = towers[0](messages) @ towers[1](replies).T
        loss = nn.functional.cross_entropy(scores, own)
        value = loss.item()
        if learnt is None and value < 1e-5:
            learnt = step
        if learnt is not None and value > 0.1:
            if not rises or step > rises[-1] + 2000:
                rises.append(step)
            highest = max(highest, value)
            lowest = min(lowest, (scores.argmax(1) == own).float().mean().item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"{name}: loss below 1e-5 at step {learnt:,}, {value:.1e} at step {steps:,}; highest between {highest:.1f}, "
          f"lowest accuracy {lowest:.0%}, rises at {rises}; {time.process_time() / 60:.1f} minutes so far", flush=True)
    return highest, lowest

adam = after_convergence("Adam", torch.optim.Adam, 250_000)
again = after_convergence("Adam, another seed", torch.optim.Adam, 250_000, seed=1)
decayed = after_convergence("AdamW, decay 0.01", torch.optim.AdamW, 250_000, weight_decay=0.01)
larger = after_convergence("Adam, eps 1e-6", torch.optim.Adam, 250_000, eps=1e-6)
amsgrad = after_convergence("Adam, amsgrad", torch.optim.Adam, 250_000, amsgrad=True)
double = after_convergence("Adam in float64", torch.optim.Adam, 250_000, dtype=torch.float64)
assert all(highest > 4.9 and lowest < 0.7 for highest, lowest in (adam, again, decayed, larger))
assert amsgrad == double == (0.0, 1.0)
PYTHON
