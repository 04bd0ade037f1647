#!/usr/bin/env bash
# Guess: for four documents in a run, RR and RR@10 are the same number, however ties are broken.
# Truth: with equal scores and "a" relevant, RR is 0.25 and RR@10 is 1, in one call: RR comes from
# trec_eval, where of equal scores the last name wins, RR@10 from the msmarco provider, where the
# first wins. P@1 and Success@1 beside them are 0. Scores that differ by less than float32 can
# tell are equal to trec_eval: a higher by 1e-9 is RR 0.5, RR@10 1.
# ir_measures 0.4.3, pytrec_eval-terrier 0.5.11, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 ir-measures==0.4.3 pytrec_eval-terrier==0.5.11
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import ir_measures
from ir_measures import AP, P, RR, Success

def measured(run):
    found = ir_measures.calc_aggregate([RR, RR@10, P@1, Success@1, AP], {"q": {"a": 1}}, {"q": run})
    print(run, {str(name): value for name, value in found.items()})
    return [found[name] for name in (RR, RR@10, P@1, Success@1, AP)]

assert measured({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}) == [0.25, 1, 0, 0, 0.25]
assert measured({"a": 1.0 + 1e-9, "b": 1.0}) == [0.5, 1, 0, 0, 0.5]
assert measured({"a": 1.0 + 1e-6, "b": 1.0}) == [1, 1, 1, 1, 1]
PYTHON
