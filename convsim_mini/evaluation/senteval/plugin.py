"""The two functions that SentEval's own engine asks for (Conneau and Kiela 2018, §3.2).

    import convsim_mini, senteval
    from convsim_mini.evaluation.senteval.plugin import batcher, prepare
    settings = {"task_path": "data/senteval", "usepytorch": False, "kfold": 10,
                "encoder": convsim_mini.load("runs/chat")}
    print(senteval.engine.SE(settings, batcher, prepare).eval(["MR", "TREC", "MRPC"]))

The engine needs PyTorch and scikit-learn. `evaluation/senteval/` measures the same without
PyTorch.
"""


def prepare(params, samples):
    """Called once a task with all its sentences. A trained run has nothing to prepare."""


def batcher(params, batch):
    """The vectors of B sentences, each a list of tokens: float32 (B, dimension).

    params.encoder: what `convsim_mini.load` returned
    """
    return params.encoder.encode([" ".join(tokens) for tokens in batch])
