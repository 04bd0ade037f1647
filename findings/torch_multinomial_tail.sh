#!/usr/bin/env bash
# Guess: torch.multinomial draws 10 million words by their frequencies (1/rank, float32, the most
# frequent first), up to the noise of sampling; so does Categorical.
# Truth: no word beyond rank 2.5 million is ever drawn, though they are 8% of the frequencies: the
# frequencies are added up one by one in float32, and near 1 what is below 3e-8 adds nothing.
# In float64, and in WeightedRandomSampler, which uses it, the draws are right.
# torch 2.13.0 on a CPU, November 2026. Half a minute.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 torch==2.13.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import torch
from torch.utils.data import WeightedRandomSampler

torch.set_num_threads(1)
torch.manual_seed(0)
words, draws, rank = 10_000_000, 2_000_000, 2_500_000
frequencies = 1 / torch.arange(1, words + 1, dtype=torch.float64)
frequencies /= frequencies.sum()
single = frequencies.float()
weighted = torch.tensor(list(WeightedRandomSampler(frequencies, draws)))
found = {"multinomial, float32": torch.multinomial(single, draws, replacement=True),
         "Categorical, float32": torch.distributions.Categorical(probs=single).sample((draws,)),
         "multinomial, float64": torch.multinomial(frequencies, draws, replacement=True),
         "WeightedRandomSampler": weighted}
true = frequencies[rank:].sum().item()
shares = [(drawn >= rank).double().mean().item() for drawn in found.values()]
print(f"words beyond rank {rank:,}: {true:.2%} of the frequencies; of the draws:")
print(*(f"{name}: {share:.2%}" for name, share in zip(found, shares)), sep="\n")
assert shares[:2] == [0, 0] and all(abs(share / true - 1) < 0.02 for share in shares[2:])
PYTHON
