"""What there is to write, easy to hard: what is judged, with which inputs, known mistakes, hints.

A mistake is a change of one text in `plain`'s backward: (old, new, what to tell the reader).
"""

from typing import NamedTuple

import numpy as np

from convsim_mini import minimal
from convsim_mini.core import attention, embeddings, layers, losses, transformer_layers

ROWS = np.array([3, 1, 3, 4, 1, 0, 3, 2, 2, 2, 1], np.int32)    # five sentences
SENTENCES = np.array([0, 0, 0, 0, 1, 2, 3, 3, 3, 4, 4])
LENGTHS = np.array([4, 1, 1, 3, 2])
MIXED = np.array([3, 0, 4, 0, 1, 3, 0, 2, 4, 0, 3])             # the same sentences, words mixed
ONE_WORD = np.array([0]), np.array([1])
COUNTS = np.array([[1, 2, 0, 0, 1], [0, 1, 0, 0, 0], [0, 0, 3, 1, 0],     # of three messages
                   [1, 1, 0, 0, 2], [0, 0, 0, 1, 1], [0, 2, 0, 0, 0]])    # and their replies
WHOLE = "loss_and_gradients"    # the parts together; training needs only the parts

MEAN = "This is the mean over the rows. Each row adds its part, so it is a sum."


class Exercise(NamedTuple):
    """One backward to write.

    gradients: what it returns, by name; library: what it replaces in training; cases:
    (shapes of the float inputs, the forward's other arguments, the inputs' mean and deviation if
    not 0 and 1); mistakes: see above; hints: three; why: a question to whoever is right, and its
    answer; steps: how many of the results are steps on the way and no gradients of inputs
    """

    gradients: tuple
    library: object
    cases: list
    mistakes: list
    hints: tuple
    why: tuple
    steps: int = 0


EXERCISES = {
    "tanh": Exercise(("dx",), layers.tanh_backward,
                     [([(4, 3)], ()), ([(2, 1, 5)], ()), ([(4, 3)], (), 0, 6)], [
        ("1 - y * y", "1 - y", "This is what you get without the square in the slope."),
        ("dy * (1 - y * y)", "1 - y * y", "This is only the slope. dy is missing."),
        ("y * y", "np.tanh(y) ** 2",
         "This is what you get with a second tanh. The cache is y already, not x."),
        ("(1 - y * y)", "y", "This is dy times the forward. It should be dy times the slope."),
        ("1 - y * y", "1 + y * y", "The square has the wrong sign: no slope is above 1."),
        ("1 - y * y", "y - y * y", "y (1 − y) is the slope of the sigmoid. tanh has another one."),
    ], (
        "Each number of x moves only one number of y. So dx is dy times one slope per number.",
        "tanh is sinh/cosh. Use the quotient rule. Only tanh x is left in the slope.",
        "The slope is 1 − tanh² x, and the cache is y = tanh x."),
        ("Why does a tanh layer stop learning where |x| is large?",
        "There y is near ±1, so the slope 1 − y² is near 0. Whatever dy is, dx is near 0.")),

    "linear": Exercise(("dx", "dweight", "dbias"), layers.linear_backward, [
        ([(4, 3), (3, 3), (3,)], ()), ([(4, 3), (3, 5), (5,)], ()), ([(1, 2), (2, 4), (4,)], ()),
    ], [
        ("dy @ weight.T", "dy @ weight", "The weight has to be transposed here."),
        ("x.T @ dy", "x.T @ dy / len(x)",
         "You divided by the number of rows. If there is a mean, it is in the loss, so in dy."),
        ("sum(axis=0)", "sum(axis=1)", "You summed over the wrong axis: features, not rows."),
        ("sum(axis=0)", "mean(axis=0)", MEAN),
        ("dy.sum(axis=0)", "dy", "This is one gradient for each row. The rows share one bias."),
    ], (
        "Write y_be as a sum over d. Find each place where x_bd occurs, then W_de, then b_e.",
        "W_de is used in every row b, so dW_de is a sum over b. Which product has such a sum? "
        "The shapes leave only one way to multiply.",
        "dx has the shape of x, (B, d), and comes from dy, (B, e), and W, (d, e): dy times Wᵀ. "
        "In the same way dW is xᵀ times dy. b is in every row: sum dy over the rows."),
        ("Why is dW a sum over the rows, and not their mean?",
        "Each row uses the same W, so a change of W changes the loss through each of them. The "
        "changes add up. If the loss is a mean, its 1/B is in dy already.")),

    "l2_normalize": Exercise(("dx",), layers.l2_normalize_backward,
                             [([(4, 3)], ()), ([(1, 5)], ())], [
        ("(dy - y * along)", "dy",
         "This is what you get without the projection: the length depends on x, too."),
        (" / norm", "", "The factor 1/‖x‖ is missing."),
        (" / norm", " / norm / norm", "You divided by ‖x‖ twice."),
        ("(dy - y * along) / norm", "dy / norm - y * along",
         "Only the first term is divided by ‖x‖."),
        ("(dy - y * along) / norm", "dy - y * along / norm",
         "Only the second term is divided by ‖x‖: brackets are missing."),
        ("dy - y", "dy + y", "The part along y has the wrong sign."),
        ("y * along", "y * norm * norm * along",
         "You projected with x where y belongs. A projection wants a unit vector."),
        (".sum(axis=1, keepdims=True)", ".sum(axis=0)",
         "You summed over the wrong axis: each row has a scalar product of its own."),
        (".sum(axis=1, keepdims=True)", ".sum()",
         "You summed over all rows: each row has a scalar product of its own."),
    ], (
        "Make one number of x larger. All numbers of y change, because the length changes.",
        "Moving x along itself does not change y. So dx has no part along y. "
        "In which direction does y move, and how far, for a step at a right angle to x?",
        "Take dy, subtract y (y · dy), with one scalar product for each row, and divide by ‖x‖. "
        "The cache holds y and ‖x‖."),
        ("Why does a gradient step make x longer and never shorter?",
        "dx has no part along x. So the step and x form a right angle, and by Pythagoras "
        "‖x − η dx‖² = ‖x‖² + η² ‖dx‖².")),

    "embedding_bag": Exercise(("places", "values"), embeddings.embedding_bag_backward, [
        ([(12, 3)], (ROWS, SENTENCES, LENGTHS)),
        ([(5, 4)], (ROWS, SENTENCES, np.array([3, 1, 2, 2, 1]))),
        ([(6, 3)], (ROWS, MIXED, LENGTHS)),
        ([(4, 2)], (np.array([2]), *ONE_WORD)),
    ], [
        ("dy * scale", "dy", "The factor 1/√n is missing."),
        ("dy * scale", "dy * scale * scale", "You divided by n. The forward divides by √n."),
        ("dy * scale", "dy / scale", "You multiplied by √n. The forward divides by √n."),
        ("rows, (dy * scale)[sources]",
         "np.unique(rows), (dy * scale)[[sources[rows == r][-1] for r in np.unique(rows)]]",
         "The gradient of repeated rows is overwritten, not added: table[rows] += … keeps one."),
        ("rows, (dy * scale)[sources]", "np.unique(np.stack([rows, sources]), axis=1)[0], "
         "(dy * scale)[np.unique(np.stack([rows, sources]), axis=1)[1]]",
         "A word that occurs twice in one sentence counts once here. It should count twice."),
        ("[sources]", "[sources] / np.bincount(rows)[rows][:, None].astype(dy.dtype)",
         "This is the mean over a row's places. Each place adds its part, so it is a sum."),
    ], (
        "Sentence b adds the row of each of its words to y_b. So each word of b passes dy_b/√n_b "
        "to its row. `scale` holds 1/√n.",
        "The cache names each place of a word: `rows` says which row of the table it is, "
        "`sources` in which sentence. What you return names places, too.",
        "Place m adds dy_b/√n_b to the row rows[m], and b is sources[m]. So the places are `rows`, "
        "and the values are dy * scale, indexed by `sources`."),
        ("Why is the gradient a list of places, and not a table?",
        "A batch uses few rows of the table. All other rows have the gradient 0, so a table would "
        "be mostly zeros that must be written and read.")),

    "batch_softmax": Exercise(("du", "dv"), losses.batch_softmax_backward, [
        ([(5, 3), (5, 3)], (2.7,)), ([(1, 4), (1, 4)], (2.0,)), ([(4, 7), (4, 7)], (0.5,)),
        ([(6, 3), (6, 3)], (60.0,)),
    ], [
        (" / len(p)", "", "The factor 1/B is missing: the loss is a mean."),
        ("scale * ", "", "The factor `scale` is missing: the scores are scale · u vᵀ."),
        ("dloss * ", "", "dloss is missing."),
        ("(p - np.eye(len(p), dtype=p.dtype))", "p",
         "This is what you get without the true response: only p, not p − 1 at its place."),
        ("dloss * (p - np.eye(len(p), dtype=p.dtype)) / len(p)",
         "dloss * p / len(p) - np.eye(len(p), dtype=p.dtype)",
         "The factors reach p, but not the 1 that is taken off at the truth."),
        ("p - np.eye", "p + np.eye",
         "The true response has the wrong sign. A step would push it away."),
        ("(p - np.eye(len(p), dtype=p.dtype))", "p * (1 - p)",
         "p (1 − p) is the slope of one p by its own score. The loss is −log p of the truth, and "
         "each score of the row moves it."),
        ("(p - np.eye(len(p), dtype=p.dtype))", "p * (p - np.eye(len(p), dtype=p.dtype))",
         "There is a factor p too many: the slope of p has it, the logarithm's 1/p cancels it."),
        ("ds.T @ u", "ds @ u", "ds has to be transposed here."),
        ("ds @ v, scale * ds.T @ u", "ds @ u, scale * ds.T @ v",
         "du needs v and dv needs u; here it is the other way round."),
        ("ds.T @ u", "(dloss * ((lambda e: e / e.sum(axis=0))(np.exp(scale * u @ v.T - ("
         "scale * u @ v.T).max(axis=0))) - np.eye(len(p), dtype=p.dtype)) / len(p)).T @ u",
         "Here the softmax runs over the messages of each reply, as in CLIP's second half. This "
         "loss has one softmax, over the replies of each message."),
    ], (
        "Go in two steps: from the loss to the scores s, then from s = scale · u vᵀ to u and v. "
        "The second step is that of a linear layer.",
        "Row i of the loss is log Σ_j e^{s_ij} − s_ii. The derivative of the first part by s_ij is "
        "a number that the cache holds. The second part concerns one column only.",
        "ds = p, minus 1 on the diagonal, all times dloss/B. "
        "Then du = scale · ds v and dv = scale · dsᵀ u. Copy p before you change it."),
        ("Why does each row of ds sum to 0, and what follows for equal v's?",
        "p sums to 1 and so does the 1 at the truth. If all v are equal, du = scale · (Σ_j ds_ij) "
        "v = 0: a message gets no gradient from replies that are all alike.")),

    WHOLE: Exercise(("dtable", "dweight", "dresponse", "dbias"), minimal.loss_and_gradients, [
        ([(5, 4), (4, 3), (3, 3), (3,)], (COUNTS, 2.0)),
        ([(5, 2), (2, 6), (6, 6), (6,)], (COUNTS[1:5], 0.7)),
    ], [
        ("dy + dy @ response.T", "dy", "One path of v is missing: v reaches y through R, too."),
        ("dy + dy @ response.T", "dy @ response.T",
         "One path of v is missing: v reaches y directly, too."),
        ("response.T", "response", "R has to be transposed on the way back to v."),
        (" * root", "", "The factor 1/√n of the bag is missing."),
        ("x.T @ dz", "x[:len(v)].T @ dz[:len(v)]",
         "This is the messages' part. Replies go through the same W: their part is missing."),
        ("x.T @ dz", "x[len(v):].T @ dz[len(v):]",
         "This is the replies' part. Messages go through the same W: their part is missing."),
        ("v.T @ dy", "both[:len(v)].T @ dy",
         "This is u with dy. R is applied to the replies: its input is v."),
        ("[du, dv]", "[dv, du]", "du and dv are exchanged: the messages come first."),
        ("l2_normalize_backward(dv_prime, y_cache)", "dv_prime",
         "The unit length of v′ is missing on the way back."),
        ("l2_normalize_backward(np.concatenate([du, dv]), unit_cache)",
         "np.concatenate([du, dv])", "The unit length of u and v is missing on the way back."),
        ("dy.sum(axis=0)", "dy.mean(axis=0)", MEAN),
    ], (
        "Go through the forward from its last line to its first. Each line has a backward, and "
        "what a line used twice gets two gradients, added.",
        "v is used twice in y = v + v R + b, W by messages and replies, a row by all its places. "
        "So: dy from v′, dv from dy on two paths, dz from du and dv together.",
        "dv = dy + dy Rᵀ, dR = vᵀ dy, db = Σ dy. Join du and dv, go back through the unit length "
        "to dz. Then dW = xᵀ dz, dx = dz Wᵀ, and dtable = countsᵀ (dx/√n)."),
        ("If dv forgets a path, which gradients are still right?",
         "Those of R and b: on the way back they are done before dv. W and the table come after "
         "it, so both are wrong.")),

    "mean_pool": Exercise(("dx",), transformer_layers.mean_pool_backward,
                          [([(11, 3)], (SENTENCES, LENGTHS)), ([(1, 4)], ONE_WORD),
                           ([(11, 2)], (MIXED, LENGTHS))], [
        (" * share[:, None]", "", "The factor 1/n is missing."),
        ("share[:, None]", "np.sqrt(share)[:, None]", "You divided by √n. A mean divides by n."),
        ("* share[:, None]", "/ len(sentences)",
         "You divided by the number of all words. Each sentence has a length of its own."),
        ("(dy * share[:, None])[sentences]",
         "np.resize(dy * share[:, None], (len(sentences), dy.shape[1]))",
         "You repeated the sentences in turn, as np.tile does. `sentences` says which sentence "
         "each word belongs to: index with it."),
    ], (
        "All words of a sentence enter its mean in the same way. So they get the same gradient.",
        "The cache has the sentence of each word: (N,). Indexing dy with it gives a line per word.",
        "dx_i = dy_b/n_b. Multiply dy by share[:, None], then index the rows with `sentences`."),
        ("Why does a word of a long sentence get less gradient than one of a short sentence?",
        "It is one of n words in the mean, so y moves by 1/n of what the word moves.")),

    "layer_norm": Exercise(("dx", "dweight", "dbias"), transformer_layers.layer_norm_backward, [
        ([(4, 5), (5,), (5,)], ()), ([(1, 8), (8,), (8,)], ()),
    ], [
        (" - g.mean(axis=1, keepdims=True)", "",
         "This is what you get without the mean's projection."),
        (" - normal * along", "",
         "This is what you get without the variance's projection: the part along x̂."),
        (" - normal * along", " + normal * along", "The part along x̂ has the wrong sign."),
        ("scale * (g", "(g", "The factor s = 1/√(variance + ε) is missing."),
        ("g = dy * weight\n    along = (g * normal).mean(axis=1, keepdims=True)"
         "          # (N, 1)\n    dx = scale * (g",
         "g = dy\n    along = (g * normal).mean(axis=1, keepdims=True)\n"
         "    dx = scale * weight * (g",
         "You projected dy and multiplied by w afterwards. First comes w: project g = dy · w."),
        (".mean(axis=1, keepdims=True)", ".sum(axis=1, keepdims=True) / (dy.shape[1] - 1)",
         "You divided by d − 1. This variance is a mean over d."),
        ("dy * weight", "dy", "The weight is missing on the way to x̂."),
        (".mean(axis=1, keepdims=True)", ".sum(axis=1, keepdims=True)",
         "There is a sum where a mean belongs: the factor 1/d is missing."),
        (".mean(axis=1, keepdims=True)", ".mean(axis=0)",
         "You averaged over the wrong axis: the statistics are those of a row."),
        ("(dy * normal).sum(axis=0)", "dy.sum(axis=0)",
         "x̂ is missing: this is the gradient of the bias."),
        ("(dy * normal).sum(axis=0)", "(dy * normal).mean(axis=0)", MEAN),
        ("dy.sum(axis=0)", "dy.mean(axis=0)", MEAN),
    ], (
        "y = x̂ w + b is a scale and a shift: dw, db and dx̂ follow as in a linear layer, number "
        "by number. Then x̂ is to be traced back to x. It depends on x in three places.",
        "Two changes of a row leave x̂ as it is: adding a constant, and stretching x − μ. So dx "
        "has no part along (1, 1, …, 1) and no part along x̂. Compare l2_normalize.",
        "From g = dy · w subtract the mean of g, then x̂ times the mean of g x̂ (means over a row, "
        "both of the first g), and multiply by s. The cache calls x̂ `normal` and s `scale`."),
        ("Why does dx get smaller when x gets larger?",
        "x̂ does not change when x is stretched. Twice the x needs twice the step for the same "
        "change of x̂, so the gradient is half: the factor s = 1/√(variance + ε).")),

    "attention": Exercise(("dp", "ds", "dq", "dk", "dv"), attention.attention_backward, [
        ([(5, 3), (5, 3), (5, 5)], ()), ([(4, 3), (5, 3), (5, 2)], ()),
        ([(1, 2), (1, 2), (1, 2)], ()), ([(5, 3), (5, 3), (5, 2)], (), 10, 0.3),
    ], [
        (" @ k * scale, ds.T @ q * scale", " @ k, ds.T @ q", "The factor 1/√m is missing."),
        ("keepdims=True))\n    return dp, ds, ds @ k * scale, ds.T @ q * scale",
         "keepdims=True)) * scale\n    return dp, ds, ds @ k, ds.T @ q",
         "Your ds holds the 1/√m already. ds is the gradient of s; the factor is for dq and dk."),
        (" @ k * scale, ds.T @ q * scale", " @ k / scale, ds.T @ q / scale",
         "You multiplied by √m. The forward divides by √m."),
        ("(p * dp).sum(axis=1, keepdims=True)", "(p * dp).sum()",
         "You summed over the whole matrix: each row has a sum of its own."),
        ("ds @ k * scale, ds.T @ q * scale", "ds @ q * scale, ds.T @ k * scale",
         "q and k are exchanged: dq needs k, and dk needs q."),
        ("dp - (p * dp).sum(axis=1, keepdims=True)", "dp",
         "This is what you get without the sum in softmax's gradient, p (dp − Σ p dp)."),
        ("p * (dp - (p * dp).sum(axis=1, keepdims=True))",
         "dp - (p * dp).sum(axis=1, keepdims=True)",
         "The factor p of softmax's gradient is missing."),
        (".sum(axis=1, keepdims=True)", ".sum(axis=0)",
         "You summed over the wrong axis: softmax runs over the words looked at, the last axis."),
        ("(p * dp).sum(axis=1, keepdims=True)", "dp.mean(axis=1, keepdims=True)",
         "This is the plain mean of dp. The sum weights each dp with its p."),
        ("(p * dp)", "dp", "The p inside the sum is missing: Σ p dp, not Σ dp."),
        ("(p * dp).sum(axis=1, keepdims=True)", "(p * dp).sum(axis=1)",
         "keepdims=True is missing: each row's sum is taken off a column."),
        ("p * (dp - (p * dp).sum(axis=1, keepdims=True))", "p * (1 - p) * dp",
         "p (1 − p) is the slope of p_j by its own score. Each score moves all p of its row."),
        ("ds.T @ q", "ds @ q", "ds has to be transposed on the way to the keys."),
        ("p.T @ dy", "p @ dy", "p has to be transposed on the way to the values."),
        ("dy @ v.T", "dy @ v", "v has to be transposed here."),
    ], (
        "Go back in three steps: y = p v, p = softmax(s), s = q kᵀ/√m. The first and the last are "
        "matrix products, as in a linear layer. Write dp and ds down on the way.",
        "dv = pᵀ dy and dp = dy vᵀ. For softmax look at one row: ∂p_j/∂s_l = p_j (δ_jl − p_l). "
        "Multiply by dp and sum over j.",
        "ds = p (dp − Σ p dp), the sum over the last axis with keepdims. Then dq = ds k/√m and "
        "dk = dsᵀ q/√m; the cache's `scale` is 1/√m."),
        ("Why does a word whose p is 1 pass no gradient to q and k?",
        "ds = p (dp − Σ p dp): where one p is 1, Σ p dp is its dp, so its ds is 0. All other p are "
        "0, so their ds is 0, too."), steps=2),
}
