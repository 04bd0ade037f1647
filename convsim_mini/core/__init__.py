"""The whole method, from text to P@N, with every gradient worked out by hand.

It needs nothing from the rest of the package. Part one, in reading order, is what the default
training computes, and how it is measured:

    arrays        `array_module(x)` gives NumPy or CuPy; `@twinned` lets a faster twin take over
    text          text → words → pieces → ids
    packed        sentences of any length, laid end to end; their words and bigrams
    layers        linear layer, tanh, unit length, each with its gradient
    embeddings    bags of rows of a table, and the table's sparse gradient
    dan           the default encoder: a bag goes through fully connected layers
    batches       pairs → batches, and which pairs each step sees
    losses        batch softmax: the other responses of a batch are the wrong ones
    model         encoder, response network and loss; all gradients of one step; texts to vectors
    optim         gradients → new parameters
    loop          step after step, and how fast it learns
    ranking       P@N: how often the true response is picked

Part two, the rest of the paper; transformer and multitask enter themselves in the dicts of model:

    attention     which word attends to which; the timing signal
    transformer_layers    layer norm, dropout and the other layers that only a Transformer has
    transformer   the other encoder, layer by layer, forward and backward
    multitask     natural language inference, the second task
    initial       the shapes and initial values of all parameters, including part one's
    gradcheck     numeric gradients, with which all the others are checked

What you read is what runs: change a function, and training runs your version, without faster twins.
It also stops at a `breakpoint()` in losses.py, for example. With --plain no twin runs at all.

minimal.py has shorter names for the same things: table is "encoder.embedding.weight", W
"encoder.linear0.weight", R and b "response.linear0.weight" and ".bias"; rows_of is
words_and_bigrams, encode is dan_forward, update is Adaptive.step.
"""

from . import multitask, transformer    # noqa: F401  (they register themselves)
