#!/usr/bin/env bash
# Guess: a corpus of some hundred GB holds "the" more than 2 billion times: the BPE trainer makes
# one token of it first of all; counts are 64 bits wide.
# Truth: counts of pairs of letters are 32 bits wide and wrap, silently. With 2.14 billion "the" is
# one token, with 2.15 billion (beyond 2**31) it stays "t", "h", "e", with room in the vocabulary:
# what is most frequent is left in letters. Train on a sample of the lines.
# tokenizers 0.23.3, November 2026. Seventeen minutes of processor on two cores.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import time

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

def lines(millions):
    """"the" so many million times, a few others a thousand times each."""
    for _ in range(1000):
        yield "hello there my other mother is well"
    for _ in range(millions * 50):
        yield "the " * 20_000

def pieces(millions):
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(vocab_size=100, special_tokens=["[UNK]"], show_progress=False)
    tokenizer.train_from_iterator(lines(millions), trainer)
    found = [tokenizer.encode(text).tokens for text in ("the", "there", "hello")]
    print(f"{millions:,} million times 'the': {found}; {time.process_time() / 60:.1f} minutes so far", flush=True)
    return found

few, many = pieces(2_140), pieces(2_150)
assert few == [["the"], ["there"], ["hello"]]
assert many == [["t", "h", "e"], ["there"], ["hello"]]
PYTHON
