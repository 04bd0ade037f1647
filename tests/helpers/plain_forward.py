"""Each encoder's forward pass by its definition: one sentence, one head, one word at a time.

What gradient checks cannot see, a forward and a backward that are wrong in the same way, these see.
They are also the shortest description of the two encoders.
"""

import numpy as np

TABLE = "encoder.embedding.weight"


def dan(params, ids, word_rows, bigrams):
    """A DAN's vector of one sentence, word ids (n,): (e,)."""
    x = bag(params[TABLE], ids, word_rows, bigrams)
    x = linears(params, "encoder", x)
    return x / np.linalg.norm(x)


def bag(table, ids, word_rows, bigrams):
    """The rows of n words and of their bigrams that have one, added up and divided by √n: (d,)."""
    row_of = {divmod(int(key), word_rows): word_rows + k for k, key in enumerate(bigrams)}
    total = sum(table[i] for i in ids)
    for two in zip(ids[:-1], ids[1:]):
        if two in row_of:
            total = total + table[row_of[two]]
    return total / np.sqrt(len(ids))


def linears(params, name, x):
    """x → linear0 → tanh → linear1 → …: (d,) → (e,)."""
    k = 0
    while f"{name}.linear{k}.weight" in params:
        x = (np.tanh(x) if k else x) @ params[f"{name}.linear{k}.weight"]
        x = x + params.get(f"{name}.linear{k}.bias", 0)
        k += 1
    return x


def response(params, config, v):
    """The vector v′ of a response, from what the encoder gives: (e,) → (e,)."""
    y = linears(params, "response", v)
    if config.residual_response:
        y = y + v
    return y / np.linalg.norm(y) if config.unit_response else y


def transformer(params, config, ids, word_rows, bigrams):
    """A Transformer's vector of one sentence, word ids (n,): (e,)."""
    d, ids = config.embedding_dim, ids[:config.max_tokens]
    x = [np.sqrt(d) * params[TABLE][i] + position(k, d) for k, i in enumerate(ids)]
    for layer in range(config.transformer_layers):
        for kind in ("attention", "feed_forward"):
            name = f"encoder.layer{layer}.{kind}"
            read = [norm(params, f"{name}.norm", word) for word in x]
            if kind == "attention":
                y = self_attention(params, name, read, config.heads)
            else:
                y = [position_wise(params, name, word) for word in read]
            x = [word + change for word, change in zip(x, y)]
    x = [norm(params, "encoder.norm", word) for word in x]
    y = linears(params, "encoder", sum(x) / len(x))
    if config.bag:
        words = bag(params[TABLE], ids, word_rows, bigrams)
        y = y + np.sqrt(d) * words @ params["encoder.bag.weight"]
    return y / np.linalg.norm(y)


def position(k, d):
    """The signal of position k: d/2 sines, then d/2 cosines, of timescales from 1 to 10,000."""
    timescales = np.geomspace(1, 10_000, d // 2)
    return np.concatenate([np.sin(k / timescales), np.cos(k / timescales)])


def norm(params, name, x):
    """Mean 0, variance 1, then scaled and shifted: (d,)."""
    x = (x - x.mean()) / np.sqrt(x.var() + 1e-6)
    return x * params[f"{name}.weight"] + params[f"{name}.bias"]


def self_attention(params, name, words, heads):
    """Each word's mean of all words' values, weighted by query · key, head by head."""
    d = len(words[0])
    qkv = [w @ params[f"{name}.qkv.weight"] + params[f"{name}.qkv.bias"] for w in words]
    outputs = []
    for query in qkv:
        parts = []
        for h in range(heads):
            own = slice(h * d // heads, (h + 1) * d // heads)
            scores = [query[:d][own] @ other[d:2 * d][own] / np.sqrt(d / heads) for other in qkv]
            p = np.exp(scores) / np.exp(scores).sum()
            parts.append(sum(share * other[2 * d:][own] for share, other in zip(p, qkv)))
        y = np.concatenate(parts)
        outputs.append(y @ params[f"{name}.output.weight"] + params[f"{name}.output.bias"])
    return outputs


def position_wise(params, name, x):
    """Two linear layers with relu between them: (d,)."""
    h = x @ params[f"{name}.linear0.weight"] + params[f"{name}.linear0.bias"]
    return np.maximum(h, 0) @ params[f"{name}.linear1.weight"] + params[f"{name}.linear1.bias"]


def pick_loss(u, v, scale):
    """−mean log of the share that a softmax over all responses gives to the true one."""
    losses = []
    for i in range(len(u)):
        weights = [np.exp(scale * u[i] @ v[j]) for j in range(len(v))]
        losses.append(-np.log(weights[i] / sum(weights)))
    return np.mean(losses)


def class_loss(params, u1, u2, labels):
    """NLI's: −mean log of the share of the true class; features of 5 u (the paper's §2.4)."""
    losses = []
    for a, b, label in zip(5 * u1, 5 * u2, labels):
        logits = linears(params, "nli", np.concatenate([a, b, np.abs(a - b), a * b]))
        losses.append(np.log(np.exp(logits).sum()) - logits[label])
    return np.mean(losses)
