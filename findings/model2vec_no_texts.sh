#!/usr/bin/env bash
# Guess: StaticModel.encode([]) gives an array of shape (0, dimensions), as encode_as_sequence
# of a text without known words does.
# Truth: it raises ValueError "need at least one array to concatenate": an empty batch at the
# end of a stream stops the program. encode([""]) gives a row of zeros.
# model2vec 0.10.0, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet model2vec==0.10.0 numpy==2.4.6 tokenizers==0.23.3
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer, models, pre_tokenizers

tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
model = StaticModel(np.eye(2, dtype=np.float32), tokenizer)
try:
    found = model.encode([])
except ValueError as error:
    found = error
print("encode([]):", repr(found), " encode(['']):", model.encode([""]).tolist(),
      " encode_as_sequence('unknown'):", model.encode_as_sequence("unknown").shape)
assert isinstance(found, ValueError) and "concatenate" in str(found)
assert not model.encode([""]).any() and model.encode_as_sequence("unknown").shape == (0, 2)
PYTHON
