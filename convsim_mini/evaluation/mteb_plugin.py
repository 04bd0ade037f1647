"""A run as a model of MTEB, the Massive Text Embedding Benchmark (Muennighoff et al. 2023).

    import convsim_mini, mteb
    from convsim_mini.evaluation.mteb_plugin import MtebModel
    model = MtebModel(convsim_mini.load("runs/chat"), name="me/chat")
    results = mteb.evaluate(model, mteb.get_tasks(["STSBenchmark", "Banking77Classification"]))
    print(results.to_dataframe())

This needs the package mteb 2, which fetches the data of its tasks itself.
"""

import json
import zlib

import numpy as np
import torch
from mteb.models import ModelMeta
from mteb.models.model_meta import ScoringFunction


class MtebModel:
    """What `convsim_mini.load` returned, with the methods that mteb's tasks call.

    name: "someone/model", as mteb wants it. mteb stores results under this name and a revision,
    which is a checksum of everything that the vectors depend on.
    """

    def __init__(self, encoder, name="convsim_mini/run"):
        self.encoder = encoder
        of_run = json.dumps(encoder.identity, sort_keys=True).encode()
        self.mteb_model_meta = ModelMeta.create_empty({
            "name": name, "revision": f"{zlib.crc32(of_run):08x}", "framework": ["NumPy"],
            "embed_dim": encoder.dimension, "similarity_fn_name": ScoringFunction.COSINE})

    def encode(self, inputs, *, show_progress_bar=False, **of_task):
        """The vectors of all n texts, float32 (n, dimension): the same for every task.

        inputs: batches, each a dict with a list of str under "text"
        """
        texts = [text for batch in inputs for text in batch["text"]]
        return self.encoder.encode(texts, show_progress_bar=show_progress_bar)

    def similarity(self, embeddings1, embeddings2):
        """Cosines of vectors, as in `SentenceEncoder.similarity`, but as a tensor."""
        return torch.from_numpy(self.encoder.similarity(embeddings1, embeddings2))

    def similarity_pairwise(self, embeddings1, embeddings2):
        """Cosines of unit vectors, row by row: (n, e), (n, e) → float32 (n,)."""
        return (np.asarray(embeddings1) * np.asarray(embeddings2)).sum(axis=1)
