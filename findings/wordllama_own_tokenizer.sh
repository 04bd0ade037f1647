#!/usr/bin/env bash
# Guess: the wheel ships table and tokenizer (16 MB), so WordLlama.load() needs no network.
# Truth: the table is found, the tokenizer is not: it lies in the folder tokenizers/, and
# load() looks in tokenizer/ and then asks the Hub. Without a network, or with
# disable_download=True, FileNotFoundError. Who gives the package's own folder as cache_dir
# opens it. wordllama 0.4.0.post1, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet wordllama==0.4.0.post1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from pathlib import Path

import wordllama
from wordllama import WordLlama

folder = Path(wordllama.__file__).parent
shipped = sorted(str(path.relative_to(folder)) for kind in ("weights", "tokenizers")
                 for path in (folder / kind).glob("l2*"))
try:
    WordLlama.load(disable_download=True)
    found = "opened"
except FileNotFoundError as error:
    found = f"FileNotFoundError: {error}"
model = WordLlama.load(cache_dir=folder, disable_download=True)
print("shipped:", shipped, "\nload():", found, "\nwith cache_dir:", model.embed("hello").shape)
assert len(shipped) == 2 and found.startswith("FileNotFoundError: Tokenizer")
assert model.embed("hello").shape == (1, 256)
PYTHON
