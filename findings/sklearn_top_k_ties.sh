#!/usr/bin/env bash
# Guess: if all classes have the same score, top_k_accuracy_score with k=1 counts the class
# with the lowest number as predicted, as argmax does.
# Truth: with three classes the last one wins, with two the first. So a model that gives
# every class the same score is right on all texts of the last of three classes, and
# ndcg_score(ignore_ties=True, k=1) likewise takes the last of equal candidates.
# scikit-learn 1.9.1, November 2026.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from sklearn.metrics import ndcg_score, top_k_accuracy_score

three = [top_k_accuracy_score([c], np.ones((1, 3)), k=1, labels=[0, 1, 2]) for c in range(3)]
two = [top_k_accuracy_score([c], [0.5], k=1, labels=[0, 1]) for c in range(2)]
ranked = [ndcg_score(np.eye(3)[[c]], np.ones((1, 3)), k=1, ignore_ties=True) for c in range(3)]
print("three classes:", three, " two:", two, " ndcg without ties:", ranked)
assert three == [0, 0, 1] and two == [1, 0] and ranked == [0, 0, 1]
PYTHON
