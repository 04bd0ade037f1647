#!/usr/bin/env bash
# Guess: where WordLevelTrainer's vocab_size cuts among words that are equally frequent, those
# seen first stay (as with collections.Counter.most_common).
# Truth: those first in the alphabet stay, however late they come. So a vocabulary cut among
# words of count 1 leans to the letter a: all 70 words kept here start with a or b.
# tokenizers 0.23.3, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet tokenizers==0.23.3
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import itertools
import string

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

words = ["".join(letters) for letters in itertools.product(string.ascii_lowercase, "aeiou", "lmnprst")]
words = words[::-1]                                       # z first, a last, each once
tokenizer = Tokenizer(models.WordLevel(unk_token="?"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
trainer = trainers.WordLevelTrainer(vocab_size=71, special_tokens=["?"], show_progress=False)
tokenizer.train_from_iterator([" ".join(words)], trainer)
kept = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)[1:]
print(len(words), "words, each once, z first; kept:", len(kept), kept[:3], "to", kept[-1],
      "; first letters:", "".join(sorted({word[0] for word in kept})))
assert kept == sorted(words)[:70]
PYTHON
