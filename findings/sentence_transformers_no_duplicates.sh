#!/usr/bin/env bash
# Guess: NO_DUPLICATES on 4,000 reply pairs, a tenth of them with the reply "yes": batches of 64 but
# for the last, about as many as len(sampler) says; what does not fit is left out.
# Truth: 56 batches of 64, one of 58 and 358 of one pair, 415 where len is 63. The Trainer stops at
# 63: each epoch ends with 6 batches of a single "yes" whose loss is 0 and leaves 352 "yes" out; a
# loop of one's own over the sampler makes 358 such steps. drop_last=True: 62 full ones, the last
# 6 drawn again, and 403 pairs never seen.
# sentence-transformers 6.2.0, torch 2.13.0, datasets 5.2.0, November 2026. A minute.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 torch==2.13.0 datasets==5.2.0 accelerate==1.15.0 \
    transformers==5.24.0 sentence-transformers==6.2.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from collections import Counter

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import (SentenceTransformer, SentenceTransformerTrainer,
                                   SentenceTransformerTrainingArguments)
from sentence_transformers.base.sampler import NoDuplicatesBatchSampler
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

torch.set_num_threads(1)
n = 4000
yes = np.random.default_rng(0).random(n) < 0.1
pairs = Dataset.from_dict({"anchor": [f"m{i}" for i in range(n)],
                           "positive": ["yes" if yes[i] else f"r{i}" for i in range(n)]})
yielded = {}
for drop_last in (False, True):
    sampler = NoDuplicatesBatchSampler(pairs, 64, drop_last, generator=torch.Generator())
    batches = list(sampler)
    yielded[drop_last] = Counter(map(len, batches))
    print(f"drop_last={drop_last}: len {len(sampler)}, {len(batches)} batches, by size {dict(yielded[drop_last])}, "
          f"pairs never seen {n - len({i for batch in batches for i in batch})}")

words = ["?", "yes", *(f"{kind}{i}" for i in range(n) for kind in "mr")]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="?"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)], device="cpu")
losses = []

class Recorded(MultipleNegativesRankingLoss):
    def forward(self, *inputs):
        loss = super().forward(*inputs)
        losses.append(loss.item())
        return loss

trainer = SentenceTransformerTrainer(
    model=model, loss=Recorded(model), train_dataset=pairs, args=SentenceTransformerTrainingArguments(
        "run", batch_sampler="no_duplicates", per_device_train_batch_size=64, num_train_epochs=1,
        report_to="none", save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True))
trainer.train()
print(f"Trainer: {trainer.state.global_step} steps, the losses of the last eight {np.round(losses[-8:], 2)}")
assert yielded[False] == {64: 56, 58: 1, 1: 358} and yielded[True] == {64: 62}
assert trainer.state.global_step == len(losses) == 63 and losses[-6:] == [0] * 6 and min(losses[:-6]) > 0
PYTHON
