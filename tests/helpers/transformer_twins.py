"""The Transformer encoder in PyTorch: padded, packed in groups, and packed in nested tensors."""

import math

import numpy as np
import torch
from torch import nn
from torch.nested import nested_tensor_from_jagged
from torch.nn import functional as F

from convsim_mini.core.attention import groups, timing_signal


class Padded(nn.Module):
    """Sentences padded to the longest of the batch, nn.MultiheadAttention, a key padding mask."""

    def __init__(self, config, rows, dtype=torch.float32):
        super().__init__()
        self.config, d = config, config.embedding_dim
        self.table = nn.Embedding(rows, d, sparse=True, dtype=dtype)
        self.layers = nn.ModuleList(PaddedLayer(config, dtype)
                                    for _ in range(config.transformer_layers))
        self.norm = nn.LayerNorm(d, eps=1e-6, dtype=dtype) if config.pre_norm else nn.Identity()
        self.linear = nn.Linear(d, config.layers[-1], config.encoder_bias, dtype=dtype)
        self.bag = nn.Linear(d, config.layers[-1], False, dtype=dtype) if config.bag else None
        self.register_buffer("signal", signal(config.max_tokens, d, dtype), persistent=False)

    def forward(self, ids, mask, rows=None, offsets=None, lengths=None):
        """ids: (B, T), mask: (B, T) True where there is no word → (B, e).

        The others, of a bag: (M,) rows of words and bigrams, (B,) where bags begin, (B,) words.
        """
        x = self.table(ids) * math.sqrt(self.config.embedding_dim) + self.signal[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x, mask)
        x = self.norm(x).masked_fill(mask[..., None], 0).sum(1) / (~mask).sum(1, keepdim=True)
        y = self.linear(x)
        if self.bag:
            bag = F.embedding_bag(rows, self.table.weight, offsets, mode="sum", sparse=True)
            y = y + self.bag(bag * math.sqrt(self.config.embedding_dim) / lengths.sqrt()[:, None])
        return F.normalize(y, dim=1)

    def ours(self):
        """(our name, parameter, whether ours is transposed) of every parameter."""
        yield "encoder.embedding.weight", self.table.weight, False
        for k, layer in enumerate(self.layers):
            name = f"encoder.layer{k}"
            yield f"{name}.attention.norm.weight", layer.norm1.weight, False
            yield f"{name}.attention.norm.bias", layer.norm1.bias, False
            yield f"{name}.attention.qkv.weight", layer.attention.in_proj_weight, True
            yield f"{name}.attention.qkv.bias", layer.attention.in_proj_bias, False
            yield f"{name}.attention.output.weight", layer.attention.out_proj.weight, True
            yield f"{name}.attention.output.bias", layer.attention.out_proj.bias, False
            yield f"{name}.feed_forward.norm.weight", layer.norm2.weight, False
            yield f"{name}.feed_forward.norm.bias", layer.norm2.bias, False
            for j, linear in enumerate((layer.linear0, layer.linear1)):
                yield f"{name}.feed_forward.linear{j}.weight", linear.weight, True
                yield f"{name}.feed_forward.linear{j}.bias", linear.bias, False
        if self.config.pre_norm:
            yield "encoder.norm.weight", self.norm.weight, False
            yield "encoder.norm.bias", self.norm.bias, False
        yield "encoder.linear0.weight", self.linear.weight, True
        if self.config.encoder_bias:
            yield "encoder.linear0.bias", self.linear.bias, False
        if self.bag:
            yield "encoder.bag.weight", self.bag.weight, True

    def load(self, params):
        """Take over the parameters of a convsim_mini model: name → array."""
        with torch.no_grad():
            for name, p, transposed in self.ours():
                value = torch.from_numpy(params[name])
                p.copy_(value.T if transposed else value)


class PaddedLayer(nn.Module):
    """Attention and feed-forward network, each around a residual connection."""

    def __init__(self, config, dtype):
        super().__init__()
        d = config.embedding_dim
        self.pre_norm = config.pre_norm
        self.norm1, self.norm2 = (nn.LayerNorm(d, eps=1e-6, dtype=dtype) for _ in range(2))
        self.attention = nn.MultiheadAttention(d, config.heads, batch_first=True, dtype=dtype)
        self.linear0, self.linear1 = (nn.Linear(d, config.hidden, dtype=dtype),
                                      nn.Linear(config.hidden, d, dtype=dtype))

    def forward(self, x, mask):
        """x: (B, T, d) → (B, T, d)."""
        if self.pre_norm:
            y = self.norm1(x)
            x = x + self.attention(y, y, y, key_padding_mask=mask, need_weights=False)[0]
            return x + self.linear1(F.relu(self.linear0(self.norm2(x))))
        x = self.norm1(x + self.attention(x, x, x, key_padding_mask=mask, need_weights=False)[0])
        return self.norm2(x + self.linear1(F.relu(self.linear0(x))))


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
            y = layer.norm1(x)
            qkv = F.linear(y, layer.attention.in_proj_weight, layer.attention.in_proj_bias)
            parts = []
            for first, last, length in sentences:
                q, k, v = qkv[first:last].view(
                    -1, length, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
                out = F.scaled_dot_product_attention(q, k, v)             # (g, h, n, d/h)
                parts.append(out.transpose(1, 2).reshape(-1, d))
            x = x + layer.attention.out_proj(torch.cat(parts))
            x = x + layer.linear1(F.relu(layer.linear0(layer.norm2(x))))
        return F.normalize(self.linear(pool @ self.norm(x)), dim=1)


def packed_batch(packed, config, dtype=torch.float32):
    """A Packed sorted by length as the arguments of PackedTwin.forward."""
    lengths = torch.from_numpy(packed.lengths)
    pool = torch.sparse_csr_tensor(torch.from_numpy(packed.offsets), torch.arange(len(packed.ids)),
                                   (1 / lengths.to(dtype)).repeat_interleave(lengths),
                                   (len(lengths), len(packed.ids)))
    return (torch.from_numpy(packed.ids).long(), positions_in(packed)[0],
            [tuple(run) for run in groups(packed.offsets, config.heads)], pool)


class NestedTwin(Padded):
    """The same without padding by PyTorch's nested tensors: one call of attention for all lengths.

    On a GPU that is its memory-efficient kernel, in float32 too. Only dense operations follow, so
    that torch.compile can take the layers as one graph.
    """

    def forward(self, ids, positions, sentences, offsets, longest):
        """→ (B, e).

        ids, positions, sentences: (N,) word, place and sentence; offsets: (B+1,); longest: words.
        """
        x = self.table(ids) * math.sqrt(self.config.embedding_dim)
        return self.layers_over(x, positions, sentences, offsets, longest)

    def layers_over(self, x, positions, sentences, offsets, longest):
        """All but the table, whose sparse gradient torch.compile does not know."""
        d, heads = self.config.embedding_dim, self.config.heads
        x = x + self.signal[positions]
        for layer in self.layers:
            qkv = F.linear(layer.norm1(x), layer.attention.in_proj_weight,
                           layer.attention.in_proj_bias)
            q, k, v = (nested_tensor_from_jagged(part.contiguous().view(-1, heads, d // heads),
                                                 offsets, min_seqlen=1, max_seqlen=longest)
                       .transpose(1, 2) for part in qkv.chunk(3, dim=1))  # (B, h, n, d/h), ragged n
            out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).values().reshape(-1, d)
            x = x + layer.attention.out_proj(out)
            x = x + layer.linear1(F.relu(layer.linear0(layer.norm2(x))))
        lengths = offsets.diff()[:, None]
        total = x.new_zeros(len(lengths), d).index_add(0, sentences, self.norm(x))
        return F.normalize(self.linear(total / lengths), dim=1)


def nested_batch(packed):
    """A Packed as the arguments of NestedTwin.forward."""
    return (torch.from_numpy(packed.ids).long(), *positions_in(packed),
            torch.from_numpy(packed.offsets), int(packed.lengths.max()))


def positions_in(packed):
    """The place of each word in its sentence, and the number of the sentence: (N,) each."""
    lengths, offsets = torch.from_numpy(packed.lengths), torch.from_numpy(packed.offsets)
    sentences = torch.arange(len(lengths)).repeat_interleave(lengths)
    return torch.arange(len(packed.ids)) - offsets[sentences], sentences


def signal(length, width, dtype):
    """The timing signal of positions 0 … length − 1."""
    return torch.from_numpy(timing_signal(length, width, np.float64)).to(dtype)


def pad(packed):
    """A Packed as ids (B, T) and mask (B, T), padded to its longest sentence."""
    lengths = torch.from_numpy(packed.lengths)
    ids = torch.zeros(len(lengths), int(lengths.max()), dtype=torch.long)
    mask = torch.arange(ids.shape[1]) >= lengths[:, None]
    ids[~mask] = torch.from_numpy(packed.ids).long()
    return ids, mask
