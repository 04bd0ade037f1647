"""Sentences in, unit vectors out: what a trained model is for."""

from collections.abc import Mapping

from .model import embed


def one_column(sentences):
    """The sentences, unchanged. Raises TypeError for a table or a dict, or for bytes."""
    if isinstance(sentences, (Mapping, bytes)) or hasattr(sentences, "columns"):
        raise TypeError(f"sentences: a {type(sentences).__name__}; expected texts, or one column "
                        "of a table")
    return sentences


class BiEncoder:
    """A trained Model with its Vocabulary, also called a dual encoder: sentences → vectors."""

    def __init__(self, model, vocabulary):
        self.model, self.vocabulary = model, vocabulary

    @property
    def dimension(self) -> int:
        """Length of an embedding."""
        return self.model.config.layers[-1]

    def encode(self, sentences, *, as_responses=False):
        """Embeddings of sentences; the dot product of two embeddings is their cosine.

        sentences: any iterable of n str, or one str → float32 (n, dimension), or (dimension,). ""
        counts as one unknown word; other types raise TypeError. as_responses: apply the response
        network, too; training ranks by encode(inputs) @ encode(responses, as_responses=True).T.
        """
        if isinstance(sentences, str):
            return self.encode([sentences], as_responses=as_responses)[0]
        return embed(self.model, self.packed(sentences), as_responses=as_responses)

    def packed(self, sentences):
        """The Packed of an iterable of str. Raises TypeError."""
        texts = list(one_column(sentences))
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"sentence {number} is {text!r}, expected a str")
        return self.vocabulary.encode(texts)
