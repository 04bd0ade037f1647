"""What is strange about rows although they can be read: told once, or refused."""

from collections import Counter

from ..common.cli import UserError, say
from .texts import misread

LABELS = {"label", "labels", "score", "is_duplicate", "is_correct"}    # columns
BINARY = {"0": 0, "0.0": 0, "False": 0, "1": 1, "1.0": 1, "True": 1}
FEW = 5            # texts that a program misread may be quotations
SAMPLE = 10        # pairs; of fewer, all may be alike


class Doubts:
    """What is strange about the pairs of a file or table, whose name is `name`."""

    def __init__(self, name):
        self.name, self.pairs = name, 0
        self.alike = 0                            # pairs whose response is their input
        self.different = {"input": set(), "response": set()}    # two texts, if there are two
        self.labels = Counter()                   # (column, 0, 1 or None for others) → rows
        self.misread = []                         # texts

    def look_at(self, part):
        """Count what is strange about a Part."""
        self.pairs += len(part.pairs)
        self.alike += sum(pair.input == pair.response != "" for pair in part.pairs)
        for side, texts in self.different.items():
            texts.update({getattr(pair, side) for pair in part.pairs} if len(texts) < 2 else ())
        self.labels.update((name, BINARY.get(str(row[name]))) for row in part.rows
                           for name in LABELS & row.keys())
        self.misread += [text for pair in part.pairs for text in pair[:2]
                         if not text.isascii() and misread(text)]

    def tell(self):
        """Say what was strange. Raises UserError if nothing can be learned from such pairs."""
        same = [f"all {side}s" for side, texts in self.different.items() if len(texts) == 1]
        if 2 * self.alike > self.pairs:
            same = [f"{self.alike:,} of {self.pairs:,} responses and their inputs"]
        if same and self.pairs >= SAMPLE:
            raise UserError(f"{self.name}: {same[0]} are the same text; expected messages and "
                            "different replies; name two other columns: --columns INPUT RESPONSE")
        for name in sorted({name for name, _ in self.labels}):
            zeros, ones, others = (self.labels[name, value] for value in (0, 1, None))
            if zeros and ones and not others:
                say(f"{self.name}: {zeros:,} rows have 0 as {name} and {ones:,} have 1; all are "
                    "read as pairs; if 0 marks wrong replies, write only those with 1 into a file")
        if len(self.misread) > FEW:
            text = self.misread[0]
            say(f'{self.name}: {len(self.misread):,} texts are UTF-8 that a program read as cp1252 '
                f'or Latin-1, such as "{text:.40}" for "{misread(text):.40}"; export them again')
