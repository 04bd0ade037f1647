"""The same models in PyTorch, as its users would write them: for parity and benchmarks.

Twin is the DAN with its tasks. Two write the Transformer: padded; packed in groups of sentences of
equal length.
"""

import math
from collections import OrderedDict

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from convsim_mini.core.attention import groups, timing_signal
from convsim_mini.core.multitask import SCALE
from convsim_mini.core.packed import words_and_bigrams

NAMES = {"table.": "encoder.embedding.", "layers.": "encoder.layer", "bag.": "encoder.bag.",
         "linear.": "encoder.linear0.", "self_attn.in_proj_": "attention.qkv.",
         "self_attn.out_proj": "attention.output", "norm1": "attention.norm",
         "norm2": "feed_forward.norm", "linear1": "feed_forward.linear0",
         "linear2": "feed_forward.linear1"}    # parts of PyTorch's names and of ours


def ours(twin, of=lambda p: p):
    """Our name → of(parameter), for all of a twin; a matrix of PyTorch's is ours transposed."""
    found = {}
    for name, p in twin.named_parameters():
        if isinstance(twin, Padded):
            for theirs, own in NAMES.items():
                name = name.replace(theirs, own, 1)
        name = "encoder." * name.startswith("norm") + name
        name = name.replace("table", "encoder.embedding")
        found[name] = of(p).T if p.dim() == 2 and "embedding" not in name else of(p)
    return found


def load(twin, params):
    """Take over the parameters of a convsim_mini model: name → array."""
    with torch.no_grad():
        for name, p in ours(twin).items():
            p.copy_(torch.from_numpy(params[name]))


def gradients(twin):
    """Our name → gradient as a full array; of a parameter that was not used zero."""
    return {name: grad.numpy() for name, grad in ours(
        twin, lambda p: torch.zeros_like(p) if p.grad is None else p.grad.to_dense()).items()}


# ---------------------------------------------------------------- DAN

class Twin(nn.Module):
    """DAN, tied encoder, response network, batch softmax and NLI's classifier, by autograd."""

    def __init__(self, config, rows, dtype=torch.float32, classifies=False):
        super().__init__()
        self.config, e = config, config.layers[-1]
        self.table = nn.EmbeddingBag(rows, config.embedding_dim, mode="sum", sparse=True,
                                     dtype=dtype)
        self.encoder = self.layers([config.embedding_dim, *config.layers], dtype,
                                   config.encoder_bias)
        self.response = self.layers([e, *config.response_hidden, e], dtype)
        self.nli = self.layers([4 * e, config.nli_hidden, 3], dtype) if classifies else None

    @staticmethod
    def layers(widths, dtype, last_bias=True):
        """Linear layers with tanh between them."""
        parts, last = OrderedDict(), len(widths) - 2
        for k in range(last + 1):
            parts[f"linear{k}"] = nn.Linear(*widths[k:k + 2], last_bias or k < last, dtype=dtype)
            if k < last:
                parts[f"tanh{k}"] = nn.Tanh()
        return nn.Sequential(parts)

    def encode(self, ids, offsets, lengths):
        """ids: (M,) rows, offsets: (2B,) where bags begin, lengths: (2B,) words → (2B, e)."""
        x = self.table(ids, offsets) / lengths.sqrt()[:, None]
        return F.normalize(self.encoder(x), dim=1)

    def forward(self, ids, offsets, lengths):
        """The loss of a batch."""
        u, v = self.encode(ids, offsets, lengths).chunk(2)
        out = self.response(v)
        if self.config.residual_response:
            out = out + v
        if self.config.unit_response:
            out = F.normalize(out, dim=1)
        scores = self.config.scale * u @ out.T
        return F.cross_entropy(scores, torch.arange(len(u), device=u.device))

    def nli_loss(self, ids, offsets, lengths, labels):
        """The loss of a batch of premises and hypotheses."""
        u1, u2 = (SCALE * self.encode(ids, offsets, lengths)).chunk(2)
        return F.cross_entropy(self.nli(torch.cat([u1, u2, (u1 - u2).abs(), u1 * u2], dim=1)),
                               labels)


def torch_sentences(packed, word_rows, bigrams, dtype=torch.float32):
    """A Packed as the arguments of Twin.encode, and of Twin.forward where it is of a batch."""
    bags = words_and_bigrams(packed, word_rows, bigrams)
    return (torch.from_numpy(bags.ids), torch.from_numpy(bags.offsets[:-1].astype(np.int32)),
            torch.from_numpy(packed.lengths).to(dtype))


# ---------------------------------------------------------------- Transformer

class Padded(nn.Module):
    """Sentences padded to the longest of the batch, and a mask, as PyTorch's own layers want it."""

    def __init__(self, config, rows, dtype=torch.float32):
        super().__init__()
        self.config, d, e = config, config.embedding_dim, config.layers[-1]
        self.table = nn.Embedding(rows, d, sparse=True, dtype=dtype)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(d, config.heads, config.hidden, dropout=0.0,
                                       layer_norm_eps=1e-6, batch_first=True,
                                       norm_first=True, dtype=dtype)
            for _ in range(config.transformer_layers))
        self.norm = nn.LayerNorm(d, eps=1e-6, dtype=dtype)
        self.linear = nn.Linear(d, e, config.encoder_bias, dtype=dtype)
        self.bag = nn.Linear(d, e, False, dtype=dtype) if config.bag else None
        signal = torch.from_numpy(timing_signal(config.max_tokens, d, np.float64)).to(dtype)
        self.register_buffer("signal", signal, persistent=False)

    def forward(self, ids, mask, rows=None, offsets=None, lengths=None):
        """ids: (B, T), mask: (B, T) True where there is no word → (B, e).

        The others, of a bag: (M,) rows of words and bigrams, (B,) where bags begin, (B,) words.
        """
        x = self.table(ids) * math.sqrt(self.config.embedding_dim) + self.signal[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=mask)
        x = self.norm(x).masked_fill(mask[..., None], 0).sum(1) / (~mask).sum(1, keepdim=True)
        y = self.linear(x)
        if self.bag:
            bag = F.embedding_bag(rows, self.table.weight, offsets, mode="sum", sparse=True)
            y = y + self.bag(bag * math.sqrt(self.config.embedding_dim) / lengths.sqrt()[:, None])
        return F.normalize(y, dim=1)


def pad(packed):
    """A Packed as ids (B, T) and mask (B, T), padded to its longest sentence."""
    lengths = torch.from_numpy(packed.lengths)
    ids = torch.zeros(len(lengths), int(lengths.max()), dtype=torch.long)
    mask = torch.arange(ids.shape[1]) >= lengths[:, None]
    ids[~mask] = torch.from_numpy(packed.ids).long()
    return ids, mask


class PackedTwin(Padded):
    """The same parameters without padding: linear over all words, attention by equal lengths."""

    def forward(self, ids, positions, sentences, pool):
        """→ (B, e).

        ids: (N,) sorted by length; positions: (N,) in their sentences; sentences: [(first, last,
        length)]; pool: CSR (B, N).
        """
        d, heads = self.config.embedding_dim, self.config.heads
        x = self.table(ids) * math.sqrt(d) + self.signal[positions]
        for layer in self.layers:
            attention, parts = layer.self_attn, []
            qkv = F.linear(layer.norm1(x), attention.in_proj_weight, attention.in_proj_bias)
            for first, last, length in sentences:
                q, k, v = qkv[first:last].view(
                    -1, length, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
                out = F.scaled_dot_product_attention(q, k, v)             # (g, h, n, d/h)
                parts.append(out.transpose(1, 2).reshape(-1, d))
            x = x + attention.out_proj(torch.cat(parts))
            x = x + layer.linear2(F.relu(layer.linear1(layer.norm2(x))))
        return F.normalize(self.linear(pool @ self.norm(x)), dim=1)


def packed_batch(packed, config, dtype=torch.float32):
    """A Packed sorted by length as the arguments of PackedTwin.forward."""
    lengths = torch.from_numpy(packed.lengths)
    pool = torch.sparse_csr_tensor(torch.from_numpy(packed.offsets), torch.arange(len(packed.ids)),
                                   (1 / lengths.to(dtype)).repeat_interleave(lengths),
                                   (len(lengths), len(packed.ids)))
    places = torch.arange(len(packed.ids)) - torch.from_numpy(
        packed.offsets[:-1]).repeat_interleave(lengths)
    return (torch.from_numpy(packed.ids).long(), places,
            [tuple(group) for group in groups(packed.offsets, config.heads)], pool)
