"""The same input-response model in PyTorch, as its users would write it: parity and benchmarks."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from convsim_mini.core.packed import words_and_bigrams
from convsim_mini.core.nli import SCALE


class Twin(nn.Module):
    """DAN, tied encoder, response network, batch softmax and NLI's classifier, by autograd."""

    def __init__(self, config, rows, dtype=torch.float32, classifies=False):
        super().__init__()
        self.config = config
        self.table = nn.EmbeddingBag(rows, config.embedding_dim, mode="sum", sparse=True,
                                     dtype=dtype)
        self.encoder = self.layers([config.embedding_dim, *config.layers], dtype,
                                   config.encoder_bias)
        e = config.layers[-1]
        self.response = self.layers([e, *config.response_hidden, e], dtype)
        self.nli = self.layers([4 * e, config.nli_hidden, 3], dtype) if classifies else None

    @staticmethod
    def layers(widths, dtype, last_bias=True):
        """Linear layers with tanh between them."""
        parts = []
        for k, (fan_in, fan_out) in enumerate(zip(widths, widths[1:])):
            bias = last_bias or k < len(widths) - 2
            parts += [nn.Tanh(), nn.Linear(fan_in, fan_out, bias, dtype=dtype)]
        return nn.Sequential(*parts[1:])

    def encode(self, ids, offsets, lengths):
        """ids: (M,) rows, offsets: (2B,) where bags begin, lengths: (2B,) words → (2B, e)."""
        x = self.table(ids, offsets) / lengths.sqrt()[:, None]
        return F.normalize(self.encoder(x), dim=1)

    def forward(self, ids, offsets, lengths, masked=None):
        """The loss of a batch; masked: (rows, columns) of false negatives."""
        u, v = self.encode(ids, offsets, lengths).chunk(2)
        out = self.response(v)
        if self.config.residual_response:
            out = out + v
        if self.config.unit_response:
            out = F.normalize(out, dim=1)
        scores = self.config.scale * u @ out.T
        if masked is not None:
            scores[masked] = -torch.inf
        return F.cross_entropy(scores, torch.arange(len(u), device=u.device))

    def nli_loss(self, ids, offsets, lengths, labels):
        """The loss of a batch of premises and hypotheses."""
        u1, u2 = (SCALE * self.encode(ids, offsets, lengths)).chunk(2)
        return F.cross_entropy(self.nli(torch.cat([u1, u2, (u1 - u2).abs(), u1 * u2], dim=1)),
                               labels)

    def load(self, params):
        """Take over the parameters of a convsim_mini model: name → array."""
        with torch.no_grad():
            for name, p in self.named_parameters_as_ours():
                ours = torch.from_numpy(np.ascontiguousarray(params[name]))
                p.copy_(ours.T if name.endswith("weight") and "linear" in name else ours)

    def named_parameters_as_ours(self):
        """(our name, parameter) for all of them; a linear weight is ours transposed."""
        yield "encoder.embedding.weight", self.table.weight
        for part, layers in (("encoder", self.encoder), ("response", self.response),
                             ("nli", self.nli or ())):
            for k, linear in enumerate(layers[::2]):
                yield f"{part}.linear{k}.weight", linear.weight
                if linear.bias is not None:
                    yield f"{part}.linear{k}.bias", linear.bias


def torch_batch(batch, word_rows, rows, dtype=torch.float32):
    """A convsim_mini Batch as the arguments of Twin.forward."""
    masked = batch.false_negatives
    return (*torch_sentences(batch.sentences, word_rows, rows, dtype),
            None if masked is None else tuple(map(torch.from_numpy, masked)))


def torch_sentences(packed, word_rows, rows, dtype=torch.float32):
    """A Packed as the arguments of Twin.encode."""
    bags = words_and_bigrams(packed, word_rows, rows - word_rows)
    return (torch.from_numpy(bags.ids), torch.from_numpy(bags.offsets[:-1].astype(np.int32)),
            torch.from_numpy(packed.lengths).to(dtype))
