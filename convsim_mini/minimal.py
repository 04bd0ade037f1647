"""The whole idea in one file: learn what sentences mean by picking responses (Yang et al. 2018).

Two sentences mean the same if the same responses would fit both. An input and its true response go
through one encoder: summed vectors of words and bigrams, a linear layer, unit length. The response
goes through one more layer. Then their dot product should be the message's largest. dx is ∂loss/∂x.
"""

import argparse
import re
from collections import Counter

import numpy as np
from chitchat_dataset import ConversationDataset

WORDS, BIGRAMS, DIM, BATCH, STEPS = 20_000, 10_000, 200, 512, 300
RATE, TABLE_RATE, SCALE = 3e-4, 0.2, 15.0    # two learning rates; 1 / temperature


def read_pairs():
    """Pairs (input, response) of lists of tokens: a list to train on and a list to test on."""
    train, test = [], []
    for number, conversation in enumerate(ConversationDataset()):
        turns = [re.findall(r"\w+|[^\w\s]", text.lower()) or [""] for text in conversation]
        side = test if number % 10 == 0 else train             # never both: neighbours tell
        side += zip(turns, turns[1:])
    return train, test


def rows_of(words, ids):
    """The table rows of a sentence of n words and of its frequent bigrams: (m,) → rows, n."""
    rows = [ids.get(word, 0) for word in words]                # row 0: all unknown words
    rows += [ids[pair] for pair in zip(words, words[1:]) if pair in ids]
    return np.array(rows), len(words)


def bag_forward(table, sentences):
    """Sum each sentence's rows and divide by √n, n its number of words → x: (B, d), cache."""
    counts = np.array([len(rows) for rows, _ in sentences])
    rows = np.concatenate([rows for rows, _ in sentences])
    scale = np.array([1 / np.sqrt(n) for _, n in sentences], table.dtype)[:, None]
    return np.add.reduceat(table[rows], np.cumsum(counts) - counts) * scale, (rows, counts, scale)


def bag_backward(dx, cache):
    """x_b = Σ table_r / √n_b: each use of row r in sentence b adds dx_b / √n_b to dtable_r."""
    rows, counts, scale = cache
    order = np.argsort(rows, kind="stable")                    # equal rows side by side
    distinct, first = np.unique(rows[order], return_index=True)
    sentence = np.repeat(np.arange(len(counts)), counts)[order]
    return distinct, np.add.reduceat((dx * scale)[sentence], first)


def l2_normalize_forward(x):
    """u = x / ‖x‖ for each row: (B, d) → (B, d), cache."""
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    return x / norm, (x / norm, norm)


def l2_normalize_backward(du, cache):
    """∂u_i/∂x_j = (δ_ij − u_i u_j) / ‖x‖: remove the part of du along u, then divide by ‖x‖."""
    u, norm = cache
    return (du - u * (u * du).sum(axis=1, keepdims=True)) / norm


def batch_softmax(u, v):
    """InfoNCE: loss = mean_i (log Σ_j e^{s_ij} − s_ii), s = 15 u vᵀ → loss, du, dv: (B, d)."""
    p = np.exp(SCALE * (u @ v.T - 1))    # e^{s − 15} does not overflow; the 15 cancels in p
    p /= p.sum(axis=1, keepdims=True)                          # (B, B), the diagonal is true
    ds = (p - np.eye(len(p), dtype=p.dtype)) / len(p)          # ∂loss/∂s = (p − δ) / B
    return -np.log(p.diagonal()).mean(), SCALE * ds @ v, SCALE * ds.T @ u


def encode(params, sentences):
    """B sentences (see `rows_of`) → u = unit(x W), where x: (B, d) are their bags; caches."""
    x, bag_cache = bag_forward(params["table"], sentences)
    u, unit_cache = l2_normalize_forward(x @ params["W"])
    return u, (x, bag_cache, unit_cache)


def loss_and_gradients(params, pairs):
    """Go through a batch forward, then backward from the last step → loss, gradients by name."""
    sentences = [text for text, _ in pairs] + [response for _, response in pairs]
    both, (x, bag_cache, unit_cache) = encode(params, sentences)                       # (2B, d)
    u, v = np.split(both, 2)
    y = v + v @ params["R"] + params["b"]                      # for responses only
    v_prime, y_cache = l2_normalize_forward(y)
    loss, du, dv_prime = batch_softmax(u, v_prime)
    dy = l2_normalize_backward(dv_prime, y_cache)
    dv = dy + dy @ params["R"].T                               # v reaches y along two paths
    dz = l2_normalize_backward(np.concatenate([du, dv]), unit_cache)   # z = x W, so dx = dz Wᵀ
    table = bag_backward(dz @ params["W"].T, bag_cache)
    return loss, {"R": v.T @ dy, "b": dy.sum(axis=0), "W": x.T @ dz, "table": table}


def update(params, grads, state, step, decay=1.0):
    """Adam for R, b and W; Adagrad for the table rows in use, with one sum of squares per row."""
    for name in ("R", "b", "W"):
        mean, square = state[name]
        mean += 0.1 * (grads[name] - mean)
        square += 0.001 * (grads[name] ** 2 - square)
        root = np.sqrt(square / (1 - 0.999 ** (step + 1)))     # divides out the start at zero
        params[name] -= decay * RATE / (1 - 0.9 ** (step + 1)) * mean / (root + 1e-8)
    rows, values = grads["table"]
    state["table"][rows] += (values ** 2).mean(axis=1, keepdims=True)
    params["table"][rows] -= decay * TABLE_RATE * values / np.sqrt(state["table"][rows])


def initial_values(counts, rng):
    """Word rows, short for frequent words (a/(a + p), Arora et al. 2017); bigram rows, 0; W = I."""
    p = np.array([0, *counts]) / sum(counts)
    table = np.zeros((len(p) + BIGRAMS, DIM), np.float32)
    table[:len(p)] = rng.standard_normal((len(p), DIM)) * (3e-4 / (3e-4 + p))[:, None]
    params = {"table": table, "W": np.eye(DIM, dtype=np.float32), "b": np.zeros(DIM, np.float32),
              "R": rng.uniform(-0.01, 0.01, (DIM, DIM)).astype(np.float32)}
    state = {name: (np.zeros_like(params[name]), np.zeros_like(params[name])) for name in "RbW"}
    return params, state | {"table": np.full((len(table), 1), 1e-12, np.float32)}


def precision(params, pairs):
    """P@1 in per cent: is the true response the best of 100? The other 99 are from other pairs."""
    u, _ = encode(params, [text for text, _ in pairs])
    v, _ = encode(params, [response for _, response in pairs])
    v, _ = l2_normalize_forward(v + v @ params["R"] + params["b"])
    scores = u.reshape(-1, 100, DIM) @ v.reshape(-1, 100, DIM).swapaxes(1, 2)    # (n/100, 100, 100)
    return 100 * (scores.argmax(axis=2) == np.arange(100)).mean()


def main():
    """Train for a minute; print P@1 before, during and after."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    train, test = read_pairs()
    counts = Counter(word for pair in train for words in pair for word in words).most_common(WORDS)
    pairs = Counter(pair for both in train for words in both for pair in zip(words, words[1:]))
    ids = {name: row for row, (name, _) in enumerate(counts + pairs.most_common(BIGRAMS), 1)}
    train, test = ([[rows_of(words, ids) for words in both] for both in some]
                   for some in (train, test))
    rng = np.random.default_rng(1)
    params, state = initial_values([number for _, number in counts], rng)
    test = [test[k] for k in rng.choice(len(test), 5_000, replace=False)]    # no neighbours
    print(f"{len(train):,} pairs. P@1 before: {precision(params, test):.1f}")
    for step in range(STEPS):
        batch = [train[k] for k in rng.choice(len(train), BATCH, replace=False)]
        loss, grads = loss_and_gradients(params, batch)
        update(params, grads, state, step, 1 - step / STEPS)
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss:.2f}, P@1 {precision(params, test):.1f}")


if __name__ == "__main__":
    main()
