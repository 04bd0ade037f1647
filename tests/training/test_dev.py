"""What training measures on the way, and chooses the best step by, is of the dev pairs alone."""

from types import SimpleNamespace

import numpy as np

from convsim_mini.core.model import embed, response_forward
from convsim_mini.evaluation.response import drawn
from convsim_mini.train import measuring_dev, starting_model
from convsim_mini.training.options import parse_config


def test_dev_is_measured_by_the_responses_v_prime_of_dev(arguments, corpus):
    config = parse_config([*map(str, arguments), "--preset", "paper"])    # v′ is far from v
    model = starting_model(config, corpus)
    without_nli = SimpleNamespace(nli_dev=None)
    measured = measuring_dev(config, corpus, without_nli)(model)

    dev = corpus.dev
    pairs, candidates = drawn(dev)
    u, v = (embed(model, dev.sentences(2 * pairs + side)) for side in (0, 1))
    replies = response_forward(model.params, v, model.config)[0]
    ranks = []
    for query, own in enumerate(candidates):
        scores = [float(u[query] @ replies[response]) for response in own]
        ranks.append(sum(score >= scores[0] for score in scores))
    for n in (1, 3, 10):
        share = float(np.mean([rank <= n for rank in ranks]))
        assert measured[f"dev_p{n}"] == round(100 * share, 2)
    others = corpus._replace(train=corpus.test, test=corpus.train)
    assert measuring_dev(config, others, without_nli)(model) == measured
    assert measuring_dev(config, corpus._replace(dev=corpus.train), without_nli)(model) != measured
