#!/usr/bin/env bash
# Guess: the mean length of utterance in words (mluw) of "I want cookie ." is 3, tagged or not; the
# one in morphemes (mlu) is over tagged utterances, and is an error where there is no %mor tier.
# Truth: without %mor the full stop is a word: 4, and a comma too; type-token ratios count them as
# well. mlu without %mor is 0.0, silently; an untagged utterance beside a tagged one counts as one
# of length 0 and halves it. Both look at CHI alone unless told otherwise.
# pylangacq 0.23.0, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet pylangacq==0.23.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
from pylangacq import CHAT

def measured(*lines):
    head = ["@UTF8", "@Begin", "@Languages:\teng", "@Participants:\tCHI Eve Target_Child, MOT Mother",
            "@ID:\teng|x|CHI|1;06.00|female|||Target_Child|||", "@ID:\teng|x|MOT|||||Mother|||"]
    talk = CHAT.from_strs(["\n".join([*head, *lines, "@End", ""])])
    found = talk.mluw()[0], talk.mlu()[0]
    print(*lines, f"-> in words {found[0]}, in morphemes {found[1]}")
    return found

plain, tags = "*CHI:\tI want cookie .", "%mor:\tpron|I v|want n|cookie ."
assert measured(plain, tags) == (3, 3) and measured(plain) == (4, 0)
assert measured("*CHI:\tyes , mom .") == (4, 0)
assert measured(plain, tags, "*CHI:\tyes mom .") == (3, 1.5)
assert measured("*MOT:\tyou want a big cookie .", "*CHI:\tyes .") == (2, 0)
PYTHON
