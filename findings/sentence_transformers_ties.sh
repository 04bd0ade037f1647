#!/usr/bin/env bash
# Guess: util.semantic_search lists equal rows by number; RerankingEvaluator puts the positives
# first itself, so that a model that scores all candidates alike has MRR 100.
# Truth: of rows 0, 1 and 3, all equal, top_k=1 gives 1, top_k=3 gives 0, 3, 1. The
# evaluator's MRR@10 is 100 with three equal negatives and 0 with 99 (torch's unstable
# argsort), while its MAP treats ties fairly: 25 and 1.
# sentence-transformers 6.2.0, torch 2.13.0 on a CPU, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 torch==2.13.0 sentence-transformers==6.2.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import torch
from sentence_transformers import SentenceTransformer, util
from sentence_transformers.sentence_transformer.evaluation import RerankingEvaluator
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models

rows = torch.tensor([[1., 0], [1, 0], [0, 1], [1, 0]])
orders = [[hit["corpus_id"] for hit in util.semantic_search(rows[:1], rows, top_k=k)[0]] for k in (1, 3)]
tokenizer = Tokenizer(models.WordLevel({"?": 0, "yes": 1, "no": 2}, unk_token="?"))
model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=np.ones((3, 2), np.float32))],
                            device="cpu")
found = {n: RerankingEvaluator([{"query": "?", "positive": ["yes"], "negative": ["no"] * n}],
                               at_k=10, show_progress_bar=False)(model) for n in (3, 99)}
print("equal rows 0, 1, 3, by top_k 1 and 3:", orders)
print(*(f"{n} equal negatives: MAP {f['map']:.2f}, MRR@10 {f['mrr@10']:.2f}" for n, f in found.items()), sep="\n")
assert orders[0] != [0] and orders[1] != [0, 1, 3]
assert found[3]["mrr@10"] == 1 and found[99]["mrr@10"] == 0
assert np.allclose([found[3]["map"], found[99]["map"]], [0.25, 0.01])
PYTHON
