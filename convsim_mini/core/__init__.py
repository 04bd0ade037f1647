"""The whole method, from text to P@N, with every gradient by hand. It needs no other part.

Part one, in reading order: what the default training computes, and how it is measured.

    arrays        `array_module(x)` is NumPy here; `@twinned` lets a faster twin take over
    text          text → words → pieces → ids
    packed        sentences of any length, laid end to end; their words and bigrams
    layers        linear layer, tanh, unit length, each with its gradient
    embeddings    bags of rows of a table, and the table's sparse gradient
    dan           the encoder: a bag through fully connected layers
    pairs         pairs → batches
    losses        batch softmax: the other responses of a batch are the wrong ones
    model         encoder, response network, loss: all gradients of one step
    optim         gradients → new parameters
    schedule      which pairs each step sees, and how fast it learns
    loop          step after step
    ranking       P@N: how often the true response is picked
    bi_encoder    sentences in, unit vectors out

Part two, the rest of the paper; transformer and nli register themselves in the dicts of model:

    dropout       random bits from a counter
    attention     which word attends to which; the timing signal
    transformer_layers    layer norm and the other layers that only a Transformer has
    transformer   the encoder, layer by layer forward and back
    nli           inference, the second task
    initial       the shapes and initial values of all parameters, part one's too
    gradcheck     numeric gradients, which check all the others

What you read is what runs: change a function and training runs your version, not its faster twin.
Put `breakpoint()` into batch_softmax_forward in losses.py, say, and training stops there; with
--plain no twin runs at all.

minimal.py calls the same things by shorter names: table is "encoder.embedding.weight", W
"encoder.linear0.weight", R and b "response.linear0.weight" and ".bias"; rows_of is
words_and_bigrams, encode is dan_forward, update is Adaptive.step.
"""

from . import nli, transformer    # noqa: F401  (they register themselves)
