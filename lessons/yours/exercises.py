"""What there is to write, easy to hard: forward, inputs to check with, known mistakes, hints.

A mistake is a change of one text in the reference's body: (old, new, what to tell the reader).
"""

import sys
from typing import NamedTuple

import numpy as np

from convsim_mini.data.packed import Packed
from convsim_mini.model import attention, embeddings, layers, losses
from convsim_mini.model.layers import Dropout

IDS = Packed(np.array([3, 1, 3, 4, 1, 0, 3, 2, 2, 2, 1], np.int32), np.array([0, 4, 5, 6, 9, 11]))
ONE_WORD = Packed(np.array([2], np.int32), np.array([0, 1]))
FALSE = np.array([0, 2]), np.array([3, 0])    # false negatives: rows, columns

MEAN = "This is the mean over the rows. Each row adds its part, so it is a sum."


class Exercise(NamedTuple):
    """One backward to write; forward and backward: the reference's.

    gradients: what it returns, by name; cases: (shapes of the float inputs, the forward's other
    arguments); mistakes: see above; hints: three; shown: names that the page explains
    """

    forward: object
    backward: object
    gradients: tuple
    cases: list
    mistakes: list
    hints: tuple
    shown: tuple = ()

    @property
    def module(self):
        """Where the reference stands."""
        return sys.modules[self.backward.__module__]


EXERCISES = {
    "tanh": Exercise(
        layers.tanh_forward, layers.tanh_backward, ("dx",),
        [([(4, 3)], ()), ([(2, 1, 5)], ())], [
        ("1 - y * y", "1 - y", "This is what you get without the square in the slope."),
        ("dy * (1 - y * y)", "1 - y * y", "This is the slope alone. dy is missing."),
        ("y * y", "np.tanh(y) ** 2",
         "This is what you get with a second tanh. The cache is y already, not x."),
        ("(1 - y * y)", "y", "This is dy times the forward. It should be dy times the slope."),
    ], (
        "Each number of x moves one number of y alone. So dx is dy times one slope per number.",
        "tanh is sinh/cosh. Use the quotient rule. The slope can be written with tanh x alone.",
        "The slope is 1 − tanh² x. The second argument is y = tanh x.")),

    "linear": Exercise(
        layers.linear_forward, layers.linear_backward, ("dx", "dweight", "dbias"), [
        ([(4, 3), (3, 3), (3,)], ()), ([(4, 3), (3, 5), (5,)], ()), ([(1, 2), (2, 4), (4,)], ()),
    ], [
        ("dy @ weight.T", "dy @ weight", "The weight has to be transposed here."),
        ("x.T @ dy", "dy.T @ x", "This is the transposed gradient."),
        ("x.T @ dy", "x.T @ dy / len(x)",
         "You divided by the number of rows. If there is a mean, it is in the loss, so in dy."),
        ("sum(axis=0)", "sum(axis=1)", "You summed over the wrong axis: features, not rows."),
        ("sum(axis=0)", "mean(axis=0)", MEAN),
        ("dy.sum(axis=0)", "dy", "This is one gradient for each row. The rows share one bias."),
    ], (
        "Write y_be as a sum over d. Find each place where x_bd stands, then W_de, then b_e.",
        "W_de is used in every row b, so dW_de is a sum over b. Which product has such a sum? "
        "The shapes leave only one way to multiply.",
        "dx has the shape of x, (B, d), and comes from dy, (B, e), and W, (d, e): dy times Wᵀ. "
        "In the same way dW is xᵀ times dy. b is in every row: sum dy over the rows.")),

    "l2_normalize": Exercise(
        layers.l2_normalize_forward, layers.l2_normalize_backward, ("dx",),
        [([(4, 3)], ()), ([(1, 5)], ())], [
        ("subtract(dy, dx, out=dx)", "array(dy)",
         "This is what you get without the projection: the length depends on x, too."),
        ("dx /= norm", "pass", "The factor 1/‖x‖ is missing."),
        ("dx /= norm", "dx /= norm * norm", "You divided by ‖x‖ twice."),
        ("subtract(dy, dx", "add(dy, dx", "The part along y has the wrong sign."),
        ("y * array_module(y).vecdot(dy, y)[:, None]",
         "y * norm * array_module(y).vecdot(dy, y * norm)[:, None]",
         "You projected with x where y belongs. A projection wants a unit vector."),
        ("array_module(y).vecdot(dy, y)[:, None]", "(dy * y).sum(axis=0)",
         "You summed over the wrong axis: each row has a scalar product of its own."),
        ("array_module(y).vecdot(dy, y)[:, None]", "(dy * y).sum()",
         "You summed over all rows: each row has a scalar product of its own."),
    ], (
        "Make one number of x larger. All numbers of y change, because the length changes.",
        "Moving x along itself does not change y. So dx has no part along y. "
        "In which direction does y move, and how far, for a step at a right angle to x?",
        "Take dy, subtract y (y · dy), with one scalar product for each row, and divide by ‖x‖. "
        "The cache holds y and ‖x‖.")),

    "embedding_bag": Exercise(
        embeddings.embedding_bag_forward, embeddings.embedding_bag_backward, ("dtable",), [
        ([(12, 3)], (IDS, IDS.lengths)), ([(5, 4)], (IDS, np.array([3, 1, 2, 2, 1]))),
        ([(4, 2)], (ONE_WORD, ONE_WORD.lengths)),
    ], [
        ("dy * scale", "dy", "The factor 1/√n is missing."),
        ("dy * scale", "dy * scale * scale", "You divided by n. The forward divides by √n."),
        ("SparseRows(rows, dy * scale, sources)", "SparseRows(np.unique(rows), (dy * scale)[["
         "sources[rows == row][-1] for row in np.unique(rows)]])",
         "The gradient of repeated ids is overwritten, not added: table[ids] += … keeps one."),
        ("SparseRows(rows, dy * scale, sources)", "(lambda both: SparseRows("
         "both[0], dy * scale, both[1]))(np.unique(np.stack([rows, sources]), axis=1))",
         "A word that stands twice in one sentence counts once here. It should count twice."),
        ("SparseRows(rows, dy * scale, sources)",
         "SparseRows(rows, (dy * scale)[sources] / "
         "np.bincount(rows)[rows][:, None].astype(dy.dtype))",
         "This is the mean over a row's places. Each place adds its part, so it is a sum."),
    ], (
        "Sentence b adds the row of each of its words to y_b. So each word of b passes dy_b/√n_b "
        "to its row. `scale` holds 1/√n.",
        "The cache names each place of a word: `rows` says which row of the table stands there, "
        "`sources` in which sentence. SparseRows names places, too, and adds up equal rows.",
        "Place m adds dy_b/√n_b to the row rows[m], and b is sources[m]. "
        "Return [SparseRows(rows, dy * scale, sources)]."),
        ("SparseRows", )),

    "batch_softmax": Exercise(
        losses.batch_softmax_forward, losses.batch_softmax_backward, ("du", "dv"), [
        ([(5, 3), (5, 3)], (3.0,)), ([(5, 3), (5, 3)], (2.0, FALSE)),
        ([(3, 4), (5, 4)], (3.0, FALSE, 1)),
    ], [
        ("/ len(v)", "", "The factor 1/B is missing: the loss is a mean."),
        ("/ len(v)", "/ len(u)", "B counts the responses, len(v). len(u) is one worker's part."),
        ("* scale", "", "The factor `scale` is missing: the scores are scale · u vᵀ."),
        ("dloss * ", "", "dloss is missing."),
        ("ds[rows, first + rows] -= step", "pass",
         "This is what you get without the true response: only p, not p − 1 at its place."),
        ("-= step", "-= 1", "The factors reach p, but not the 1 that is taken off at the truth."),
        ("-= step", "+= step", "The true response has the wrong sign. A step would push it away."),
        ("ds.T @ u", "ds @ u", "ds has to be transposed here."),
        ("ds @ v, ds.T @ u", "ds.T @ u, ds @ v", "du and dv stand in each other's place."),
        ("ds @ v, ds.T @ u", "ds @ u, ds.T @ v", "du needs v and dv needs u; here it is the other "
         "way round."),
        ("first + rows", "rows",
         "`first` is left out: the truth of input i is response first + i."),
    ], (
        "Go in two steps: from the loss to the scores s, then from s = scale · u vᵀ to u and v. "
        "The second step is that of a linear layer.",
        "Row i of the loss is log Σ_j e^{s_ij} − s_ii. The derivative of the first part by s_ij is "
        "a number that the cache holds. The second part concerns one column only.",
        "ds = p, minus 1 where j = first + i, all times dloss/B. B is len(v). "
        "Then du = scale · ds v and dv = scale · dsᵀ u. Copy p before you change it.")),

    "mean_pool": Exercise(
        embeddings.mean_pool_forward, embeddings.mean_pool_backward, ("dx",),
        [([(11, 3)], (IDS,)), ([(1, 4)], (ONE_WORD,))], [
        (" * share[:, None]", "", "The factor 1/n is missing."),
        ("share[:, None]", "np.sqrt(share)[:, None]", "You divided by √n. A mean divides by n."),
        ("* share[:, None]", "/ len(sentences)",
         "You divided by the number of all words. Each sentence has a length of its own."),
        ("(dy * share[:, None]).take(sentences, axis=0)",
         "np.resize(dy * share[:, None], (len(sentences), dy.shape[1]))",
         "You repeated the sentences in turn, as np.tile does. Words of one sentence lie side by "
         "side, as np.repeat has them."),
    ], (
        "All words of a sentence enter its mean in the same way. So they get the same gradient.",
        "The cache has the sentence of each word: (N,). Indexing dy with it gives a line per word.",
        "dx_i = dy_b/n_b. Multiply dy by share[:, None], then index the rows with `sentences`.")),

    "layer_norm": Exercise(
        layers.layer_norm_forward, layers.layer_norm_backward, ("dx", "dweight", "dbias"), [
        ([(4, 5), (5,), (5,)], ()), ([(1, 8), (8,), (8,)], ()),
    ], [
        ("dx -= dx.mean(axis=1, keepdims=True)", "pass",
         "This is what you get without the mean's projection."),
        ("dx -= normal * along", "pass",
         "This is what you get without the variance's projection: the part along x̂."),
        ("dx *= scale", "pass", "The factor s = 1/√(variance + ε) is missing."),
        ("dx *= scale", "dx /= scale", "You divided by s. s is one over the deviation already."),
        ("dx = dy * weight", "dx = dy.copy()", "The weight is missing on the way to x̂."),
        (".mean(axis=1, keepdims=True)", ".sum(axis=1, keepdims=True)",
         "There is a sum where a mean belongs: the factor 1/d is missing."),
        (".mean(axis=1, keepdims=True)", ".mean(axis=0)",
         "You averaged over the wrong axis: the statistics are those of a row."),
        ('array_module(dy).einsum("nd,nd->d", dy, normal)', "dy.sum(axis=0)",
         "x̂ is missing: this is the gradient of the bias."),
        ('array_module(dy).einsum("nd,nd->d", dy, normal)', "(dy * normal).mean(axis=0)", MEAN),
        ("dy.sum(axis=0)", "dy.mean(axis=0)", MEAN),
    ], (
        "y = x̂ w + b is a scale and a shift: dw, db and dx̂ follow as in a linear layer, number "
        "by number. Then x̂ is to be traced back to x. It depends on x in three places.",
        "Two changes of a row leave x̂ as it is: adding a constant, and stretching x − μ. So dx "
        "has no part along (1, 1, …, 1) and no part along x̂. Compare l2_normalize.",
        "From g = dy · w subtract the mean of g, then x̂ times the mean of g x̂ (means over a row, "
        "both of the first g), and multiply by s. The cache calls x̂ `normal` and s `scale`.")),

    "attention": Exercise(
        attention.attention_forward, attention.attention_backward, ("dqkv",), [
        ([(11, 12)], (IDS.offsets, 2)), ([(4, 9)], (np.array([0, 4]), 1)),
        ([(11, 12)], (IDS.offsets, 2, Dropout(0.3, key=7))),
    ], [
        ("ds *= 1 / math.sqrt(q.shape[3])", "pass", "The factor 1/√m is missing."),
        ("math.sqrt(q.shape[3])", "math.sqrt(qkv.shape[1] // 3)",
         "You divided by √d. The forward divides by √m, m = d/h the width of one head."),
        ("ds -= (p * ds).sum(axis=3, keepdims=True)", "pass",
         "This is what you get without the sum in softmax's gradient, p (dp − Σ p dp)."),
        ("ds *= p", "pass", "The factor p of softmax's gradient is missing."),
        ("(p * ds).sum(axis=3", "(p * ds).sum(axis=2",
         "You summed over the wrong axis: softmax runs over the words looked at, the last axis."),
        ("ds.swapaxes(2, 3) @ q", "ds @ q", "ds has to be transposed on the way to the keys."),
        ("(p if factor is None else p * factor).swapaxes(2, 3)",
         "(p if factor is None else p * factor)",
         "p has to be transposed on the way to the values."),
        ("dq, dk, dv = ", "dk, dq, dv = ", "dq and dk stand in each other's place."),
        ("(p if factor is None else p * factor)", "p",
         "The dropout is missing: v was weighted with p · factor, not with p."),
        ("dropout_backward(dout @ v.swapaxes(2, 3), factor)", "dout @ v.swapaxes(2, 3)",
         "The dropout is missing between dp and the softmax."),
    ], (
        "Go back in three steps, for each group and head: y = p v, p = softmax(s), s = q kᵀ/√m. "
        "The first and the last are matrix products, as in a linear layer. "
        "Loop over zip(sentences, p_of_groups, factors). Fill the views of _split_heads(dqkv, …).",
        "dv = (p · factor)ᵀ dy and dp = (dy vᵀ) · factor. Without dropout the factor is None. "
        "For softmax look at one row: ∂p_j/∂s_l = p_j (δ_jl − p_l). Multiply by dp and sum.",
        "ds = p (dp − Σ p dp), the sum over the last axis with keepdims. Then dq = ds k/√m and "
        "dk = dsᵀ q/√m, m = q.shape[3], ᵀ is .swapaxes(2, 3). "
        "Fill the views: dq[...] = …, dk[...] = …, dv[...] = …; return dqkv."),
        ("AttentionCache", "Group", "_split_heads")),
}
