# %% [markdown]
# # 10 · An autograd in sixty lines: what it saves, and what it does not see
#
# **Needs** softmax and its loss (lessons 4 and 5), the DAN (lesson 8), unit vectors (lesson 9).
# **Gives** a small autograd that finds the same gradients with no backward written; the one thing that
# the chain rule alone does not see, and two that ours wastes.
# **Time** 60 minutes.
#
# **In thirty seconds.** Every array remembers what it was made from. Walk back from the
# loss, multiply by each step's derivative, add where an array was used twice: that is all of
# backpropagation. It gives the same gradients as our backwards by hand. But it discovers no closed
# form, so it overflows where they do not. And one as simple as ours keeps six times as many values.
#
# PyTorch, JAX and TensorFlow write the backward for you. This course writes each by hand. Which is
# better? We build the automatic way in sixty lines, give it the same encoder, and compare both.

# %%
import sys

sys.path += [".", "lessons"]
from lesson import check, claim, expect, np, plt, seed, show
import scipy.sparse
from convsim_mini.config import ModelConfig
from convsim_mini.core.dan import dan_forward
from convsim_mini.core.gradcheck import dense, numeric_gradient, relative_error
from convsim_mini.core.losses import batch_softmax_forward
from convsim_mini.core.model import Model, loss_and_gradients, response_forward
from convsim_mini.core.packed import Packed, frequent_bigrams, offsets_of, words_and_bigrams
from convsim_mini.core.batches import Batch
from convsim_mini.core.initial import initial_parameters

rng = np.random.default_rng(seed(18))

# %% [markdown]
# ## Remember the parents
#
# A program that computes a loss is a chain of small steps: a sum, a product, an exp. Each has a
# known derivative. So let every array remember **which arrays it was made from**, its parents, and
# for each of them a function that turns the gradient of the result into the gradient of that
# parent. For y = a b they are dy ↦ dy · b and dy ↦ dy · a.
#
# ![The graph of y = a b + exp(a), and the gradient back](pictures/10_graph.svg)
#
# Then the backward is a walk from the loss to the parameters. An array that is used twice gets two
# gradients, and they add (lesson 3). This is how we want to use it:
#
#     a, b = Node(2.0), Node(3.0)
#     y = a * b + a.exp()
#     y.backward(1.0)      # now a.grad is b + eᵃ = 10.389, and b.grad is a = 2
#
# In which order do we walk? The obvious idea: pass each gradient on the moment it arrives.
#
# **Predict:** x is doubled by x ← x + x, 16 times. How often does the recursive walk visit a node?

# %%
visits = lambda doublings: 1 + (2 * visits(doublings - 1) if doublings else 0)   # x twice in each
expect(visits(16), 131_071, 131_071, "16 doublings: visits, 2¹⁷ − 1")

# %% [markdown]
# 131,071 visits, one for each *path*. A residual connection doubles the paths as well, so 48
# residual layers would need 2⁴⁸ visits. Instead we wait until a node's gradient is complete, and
# pass it on **once**, after all nodes that use it. Such an order is called topological.
#
# ## Sixty lines
#
# The rest is a list of derivatives. One detail: NumPy stretches (B, 1) or (e,) to (B, e). Stretching
# copies a number, so its gradient is a sum over the copies. `fit` takes that sum. `take([2, 0, 2])`
# does an embedding's work: it fetches rows 2, 0 and 2, so going back row 2 gets two gradients.

# %%
def fit(gradient, shape):
    """Undo broadcasting: sum over the axes that were stretched."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    stretched = tuple(i for i, size in enumerate(shape) if size == 1)
    return gradient.sum(axis=stretched, keepdims=True) if stretched else gradient


class Node:
    """An array with its parents: pairs of a Node and dy ↦ the gradient of that Node."""

    def __init__(self, value, *parents):
        self.value, self.parents, self.grad = np.asarray(value), parents, None

    def __add__(self, other):
        other = other if isinstance(other, Node) else Node(other)
        return Node(self.value + other.value, (self, lambda dy: fit(dy, self.value.shape)),
                    (other, lambda dy: fit(dy, other.value.shape)))

    def __mul__(self, other):
        other = other if isinstance(other, Node) else Node(other)
        return Node(self.value * other.value,
                    (self, lambda dy: fit(dy * other.value, self.value.shape)),
                    (other, lambda dy: fit(dy * self.value, other.value.shape)))

    def __matmul__(self, other):
        return Node(self.value @ other.value, (self, lambda dy: dy @ other.value.T),
                    (other, lambda dy: self.value.T @ dy))

    def times(self, matrix):
        """matrix · self; the matrix (m, n) has no gradient."""
        return Node(matrix @ self.value, (self, lambda dy: matrix.T @ dy))

    def power(self, exponent):
        return Node(self.value**exponent,
                    (self, lambda dy: dy * exponent * self.value ** (exponent - 1)))

    def exp(self):
        return Node(y := np.exp(self.value), (self, lambda dy: dy * y))

    def log(self):
        return Node(np.log(self.value), (self, lambda dy: dy / self.value))

    def sum(self, axis=None):
        y = self.value.sum(axis=axis, keepdims=True)
        return Node(y, (self, lambda dy: np.broadcast_to(dy, self.value.shape)))

    def transpose(self):
        return Node(self.value.T, (self, lambda dy: dy.T))

    def take(self, rows, columns=slice(None)):
        def backward(dy):
            full = np.zeros_like(self.value)
            np.add.at(full, (rows, columns), dy)              # the same place may occur often
            return full
        return Node(self.value[rows, columns], (self, backward))

    def ancestors(self):
        """This node and all that it was made from, each once, parents before their children."""
        order, seen, stack = [], set(), [(self, False)]
        while stack:                                          # depth first
            node, done = stack.pop()
            if done:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack += [(node, True), *((parent, False) for parent, _ in node.parents)]
        return order

    def backward(self, dy):
        """Fill .grad of all ancestors: users before what they use, each node once."""
        self.grad = np.asarray(dy)
        for node in reversed(self.ancestors()):
            for parent, rule in node.parents:
                gradient = rule(node.grad)
                parent.grad = gradient if parent.grad is None else parent.grad + gradient


a, b = Node(2.0), Node(3.0)
(a * b + a.exp()).backward(1.0)
print(f"a.grad {a.grad:.3f}, by hand b + eᵃ = {3 + np.exp(2):.3f};  b.grad {b.grad}, by hand a = 2")

# %% [markdown]
# Two numbers work. Now every rule: random dy (lesson 2), shapes that stretch, a row taken twice:

# %%
twice = np.array([2, 0, 2])
rules = [
    (lambda a, b: a + b, (4,)), (lambda a, b: a * b, (3, 1)), (lambda a, b: a @ b, (4, 2)),
    (lambda a: a * -2.5 + 1,), (lambda a: a.times(np.arange(6.0).reshape(2, 3)),),
    (lambda a: a.power(-0.5),), (lambda a: a.exp(),), (lambda a: a.log(),),
    (lambda a: a.sum(axis=1),), (lambda a: a.transpose(),), (lambda a: a.take(twice),),
    (lambda a: a.take(twice, twice),), (lambda a: a * a + a.exp(),)]
errors = []
for f, *shape_of_b in rules:
    inputs = [rng.uniform(0.5, 2, shape) for shape in ((3, 4), *shape_of_b)]
    leaves = [Node(x) for x in inputs]
    y = f(*leaves)
    dy = rng.standard_normal(y.value.shape)
    y.backward(dy)
    measured = lambda: float((f(*map(Node, inputs)).value * dy).sum())
    errors += [relative_error(leaf.grad, numeric_gradient(measured, x))
               for leaf, x in zip(leaves, inputs)]
expect(errors, 0, 1e-8, f"{len(rules)} rules, against differences")

# %% [markdown]
# ## What it saves
#
# Now the default encoder with its loss: bags of words and bigrams, a linear layer, unit vectors,
# the response network, the batch softmax. Only the forward is written. Id k is drawn with a
# probability like 1/k, as in real text (Zipf's law).

# %%
K, WORDS, D = 256, 8_000, 100
config = ModelConfig(embedding_dim=D, layers=[D])
lengths = rng.integers(1, 21, 2 * K)
zipf = 1 / np.arange(1, WORDS + 1)
draw = lambda n: rng.choice(WORDS, n, p=zipf / zipf.sum()).astype(np.int32)
sentences = Packed(draw(lengths.sum()), offsets_of(lengths))
bigrams = frequent_bigrams(Packed(draw(500_000), offsets_of([500_000])), WORDS, 10_000)
table = rng.standard_normal((WORDS + len(bigrams), D))
params = {name: p.astype(float) for name, p in initial_parameters(config, table, rng).items()}


unit = lambda x: x * (x * x).sum(axis=1).power(-0.5)


def naive_loss(scores):
    """−mean log softmax of the diagonal, as one writes it down."""
    here = np.arange(len(scores.value))
    true = scores.take(here, here).sum()
    return (scores.exp().sum(axis=1).log().sum() + true * -1.0) * (1 / len(here))


def autograd_loss(params):
    """→ the loss of the batch as a Node, the parameters as Nodes by name."""
    leaves = {name: Node(p) for name, p in params.items()}
    rows = words_and_bigrams(sentences, WORDS, bigrams)
    scale = np.repeat(1 / np.sqrt(lengths), rows.lengths)     # (M,)
    sums = scipy.sparse.csr_matrix((scale, np.arange(len(rows.ids)), rows.offsets))
    x = leaves["encoder.embedding.weight"].take(rows.ids).times(sums)                 # (2K, d)
    both = unit(x @ leaves["encoder.linear0.weight"])
    u, v = both.take(np.arange(K)), both.take(np.arange(K, 2 * K))                    # (K, e)
    v = unit(v + v @ leaves["response.linear0.weight"] + leaves["response.linear0.bias"])
    return naive_loss((u @ v.transpose()) * config.scale), leaves


loss, leaves = autograd_loss(params)
print("the graph, step by step:", *("×".join(map(str, node.value.shape))
                                    for node in loss.ancestors() if node.parents))
loss.backward(np.ones_like(loss.value))
model = Model(params, config, WORDS, bigrams)
library_loss, grads = loss_and_gradients(model, Batch(sentences))
expect(abs(loss.value.item() - library_loss), 0, 1e-10, "loss minus the library's")
expect(max(relative_error(leaves[name].grad, dense(grads[name], p)) for name, p in params.items()),
       0, 1e-10, "the four gradients, graph against hand")

# %% [markdown]
# The same numbers, and nobody wrote a backward. A new layer needs only its forward, and the two can
# never drift apart. An autograd is also the best check of a backward by hand:
# exact up to rounding, and far cheaper than differences. (`tests/core/test_torch_parity.py` uses PyTorch's.)
#
# ## What it does not see: a closed form
#
# An autograd knows every step but not what they are for. By hand, the gradient of the softmax loss
# is (p − δ)/K: no exp or log is left. The graph still computes them.
#
# **Predict:** in each of four rows the true reply has the score 120, the others 0, in float32. The loss
# is nearly 0. What does the naive graph say?

# %%
def graph_of(scores, loss_of):
    """Loss and gradient of the scores by the graph, without NumPy's warnings."""
    leaf = Node(scores)
    with np.errstate(all="ignore"):
        loss = loss_of(leaf)
        loss.backward(np.ones_like(loss.value))
    return loss.value.item(), leaf.grad


steep = np.eye(4, dtype=np.float32) * 120
value, gradient = graph_of(steep, naive_loss)
expect(batch_softmax_forward(steep, np.eye(4, dtype=np.float32))[0], 0, 1e-6, "loss by hand")
print(f"by the graph: a loss of {value}, {np.isnan(gradient).sum()} of 16 gradients are nan")
assert np.isinf(value) and np.isnan(gradient).any()

# %% [markdown]
# The graph says inf, and some of its gradients are nan: e^120 is more than float32 can hold. The
# remedy, subtracting the row's largest score, is *algebra*: it changes no value, and no rule for
# one step could discover it. Unit vectors have the same problem: by hand a row of zeros stays zero;
# in the graph 0 to the power −½ is inf, and 0 · inf is nan.
#
# ### Exercise 1: teach it the closed form
#
# Write the loss as *one* Node with its own rule, dy ↦ dy (p − δ)/K. (This is what frameworks do.
# Their cross-entropy is a closed form that somebody derived by hand.)

# %%
def fused_loss(scores):
    """scores: Node (K, K) → Node (1, 1): −mean log softmax of the diagonal, one parent."""
    raise NotImplementedError


def judge_fused(fused_loss, rng):
    for K in (5, int(rng.integers(2, 5))):
        scores = rng.standard_normal((K, K))
        loss, gradient = graph_of(scores, naive_loss)
        found, found_gradient = graph_of(scores, fused_loss)
        assert abs(found - loss) < 1e-9, f"the loss is {found:.6f}, expected {loss:.6f}"
        assert relative_error(found_gradient, gradient) < 1e-9, "the gradient is not (p − δ)/K"
    steps = np.arange(4, dtype=np.float32)[:, None] * np.float32(rng.integers(200, 300))
    for what, hard, right in (
            ("the true reply 120 above: subtract the row's largest score first", steep, 0),
            ("the true reply 120 below: take the logarithm before p becomes 0", -steep,
             120 + np.log(3)),
            ("rows more than 200 apart: each row has its own largest score", steep + steps, 0)):
        p = np.exp(hard - hard.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        found, found_gradient = graph_of(hard, fused_loss)
        assert abs(found - right) < 1e-4, f"the loss is {found}, expected {right:.6g}, with {what}"
        assert np.abs(found_gradient - (p - np.eye(4)) / 4).max() < 1e-6, (
            f"the loss is right, its gradient is not (p − δ)/K, with {what}")
    node = Node(scores)
    parents = fused_loss(node).parents
    assert [parent for parent, _ in parents] == [node], "the Node has one parent: scores"
    (_, rule), = parents
    assert relative_error(rule(np.full((1, 1), 2.5)), 2.5 * gradient) < 1e-9, (
        "the rule does not use dy")


check(1, fused_loss, judge_fused)

# %% [markdown]
# ## What ours wastes: rows that nobody used
#
# `take` fills a whole table with zeros to put a few rows in, since the sum of two gradients has to have
# the shape of the parameter. By hand the gradient is SparseRows (lesson 7): a vector for each sentence,
# and the numbers of the rows that get it.

# %%
TABLE = "encoder.embedding.weight"
by_hand = sum(array.nbytes for part in grads[TABLE] for array in part)
by_graph = leaves[TABLE].grad.nbytes
claim("bytes of the table's gradient, graph over hand", by_graph / by_hand, low=10)

# %% [markdown]
# ## And what else: values that nobody needs
#
# Between forward and backward the graph keeps *every* intermediate value, because each Node stores its
# own. A cache by hand holds only what the derivation needs. Count what both keep.

# %%
def arrays_of(cache):
    """Arrays of a cache: nested tuples and lists."""
    if isinstance(cache, (tuple, list)):
        return [array for part in cache for array in arrays_of(part)]
    return [cache] if isinstance(cache, np.ndarray) else []


def megabytes(arrays):
    """MB of the arrays' memory, each piece counted once, parameters not at all."""
    owners = [array if array.base is None else array.base for array in arrays]
    sizes = {id(own): own.nbytes for own in owners}
    return sum(sizes[key] for key in sizes.keys() - set(map(id, params.values()))) / 1e6


both, encoder_cache = dan_forward(model, sentences)
v, response_cache = response_forward(model, both[K:])
_, loss_cache = batch_softmax_forward(both[:K], v, config.scale)
order = loss.ancestors()
made = [node.value for node in order if node.parents] + [node.grad for node in order[::-1]]
at_loss = megabytes(made[:-len(order)])
caches = megabytes(arrays_of((encoder_cache, response_cache, loss_cache)))
claim("bytes kept for the backward, graph over hand", at_loss / caches, low=3)

gradients = (megabytes(made) - at_loss - by_graph / 1e6,      # those of all but the table
             sum(grads[name].nbytes for name in grads.keys() - {TABLE}) / 1e6)
parts = {"values, kept at the loss": (at_loss, caches),    # MB of the graph, by hand
         "the table's gradient": (by_graph / 1e6, by_hand / 1e6), "other gradients": gradients}
figure, axes = plt.subplots(figsize=(9, 3.6))
left = np.zeros(2)
for (what, sizes), color in zip(parts.items(), ("C0", "C3", "#fdae6b")):
    axes.barh(["graph", "by hand"], sizes, left=left, color=color, label=what, height=0.6)
    left += sizes
axes.invert_yaxis()
axes.set(xlabel="MB kept in the end, float64", ylabel="backward",
         title=f"At the loss a graph has kept {at_loss / caches:.0f} × as much,\n"
               f"and its table's gradient is {by_graph / by_hand:.0f} × as large")
show(figure, "10_an_autograd_in_sixty_lines")

# %% [markdown]
# More than half of what the graph keeps at the loss is the embeddings that `take` fetched, and on the way back the
# whole table that it fills. By hand the bag adds the rows where they are (lesson 8). The orange part is the
# .grad of every value in between, which by hand, as in any framework, is dropped once it has been used.
#
# Neither is a law: in a framework the rules save only what they read, and the embedding has a `sparse`
# switch. Its cross-entropy is one rule, too. But **somebody derived each of these by hand**.
# An autograd chains rules; it does not discover them. That is why this course writes them.
#
# ## Where this lives
#
# - Nowhere: convsim_mini has no autograd. `core/layers.py`, `core/losses.py` and
#   `core/embeddings.py` hold the rules; `core/model.py` calls them in order.
# - `loss_and_gradients` of `minimal.py` does by hand what `autograd_loss` and `backward` do here.
# - To read further: Karpathy's [micrograd](https://github.com/karpathy/micrograd), the same idea
#   for single numbers; PyTorch on [its own](https://pytorch.org/docs/stable/notes/autograd.html).

# %% [markdown]
# ## What you know now
#
# - A graph that remembers parents gives every gradient that you can write by hand.
# - It discovers no closed form, and so no remedy for an overflow.
# - Ours fills whole tables for a few rows and keeps every value; a framework's need not.
#
# Next: lesson 11 puts all pieces together, in one file.
#
# Solutions, for when you have tried: `lessons/solutions/10_an_autograd_in_sixty_lines.py`.
