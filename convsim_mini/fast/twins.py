"""The table: which function of core has which faster twin."""

from ..core import (
    attention, dropout, embeddings, layers, losses, optim, transformer_layers)
from . import host, kernels

TWINS = {    # function of core: (its twin for NumPy's arrays, for CuPy's)
    layers.linear_forward: (host.linear_forward, kernels.linear_forward),
    layers.linear_backward: (host.linear_backward, kernels.linear_backward),
    layers.l2_normalize_forward: (host.l2_normalize_forward, kernels.l2_normalize_forward),
    layers.l2_normalize_backward: (host.l2_normalize_backward, kernels.l2_normalize_backward),
    embeddings.word_bag_forward: (None, kernels.word_bag_forward),
    embeddings.embedding_bag_forward: (host.embedding_bag_forward, None),
    embeddings.sum_rows: (host.sum_rows, kernels.sum_rows),
    losses.batch_softmax_forward: (host.batch_softmax_forward, kernels.batch_softmax_forward),
    losses.batch_softmax_backward: (host.batch_softmax_backward, kernels.batch_softmax_backward),
    optim.sgd: (None, kernels.sgd),
    optim.adam: (None, kernels.adam),
    optim.update_rows: (host.update_rows, kernels.update_rows),
    attention.attention_forward: (host.attention_forward, kernels.attention_forward),
    attention.attention_backward: (host.attention_backward, kernels.attention_backward),
    dropout.dropout_forward: (None, kernels.dropout_forward),
    dropout.dropout_backward: (None, kernels.dropout_backward),
    transformer_layers.layer_norm_forward: (host.layer_norm_forward, kernels.layer_norm_forward),
    transformer_layers.layer_norm_backward: (host.layer_norm_backward, kernels.layer_norm_backward),
    transformer_layers.add_norm_forward: (None, kernels.add_norm_forward),
    transformer_layers.add_norm_backward: (None, kernels.add_norm_backward),
    transformer_layers.position_wise_forward: (None, kernels.position_wise_forward),
    transformer_layers.position_wise_backward: (None, kernels.position_wise_backward),
    transformer_layers.placed_embedding_forward: (None, kernels.placed_embedding_forward),
    transformer_layers.mean_pool_forward: (None, kernels.mean_pool_forward),
    transformer_layers.mean_pool_backward: (None, kernels.mean_pool_backward),
}
