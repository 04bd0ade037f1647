"""What is strange about rows although they can be read: told once, or refused."""

from collections import Counter

from ..common.cli import UserError, say
from .texts import misread

LABELS = {"label", "labels", "score", "is_duplicate", "is_correct"}    # columns
BINARY = {"0": 0, "0.0": 0, "False": 0, "1": 1, "1.0": 1, "True": 1}
FEW = 5            # texts that a program misread may be quotations
SAMPLE = 10        # pairs in which most must differ


class Doubts:
    """What is strange about the rows of a file or table, whose name is `name`."""

    def __init__(self, name):
        self.name = name
        self.labels = Counter()    # (column, 0 or 1, or None for any other value) → rows
        self.misread = []          # texts

    def look_at(self, part):
        """Count what is strange about a Part. Raises UserError if most replies are the message."""
        self.labels.update((name, BINARY.get(str(row[name]))) for row in part.rows
                           for name in LABELS & row.keys())
        self.misread += [text for pair in part.pairs for text in pair[:2]
                         if not text.isascii() and misread(text)]
        same = sum(pair.input == pair.response for pair in part.pairs if pair.input)
        if len(part.fields) == 2 and len(part.pairs) >= SAMPLE and 2 * same > len(part.pairs):
            raise UserError(f"{self.name}: input and response are the same text in {same:,} of "
                            f"{len(part.pairs):,} rows; expected a message and its reply; name two "
                            "other columns: --columns INPUT RESPONSE")

    def tell(self):
        """Say in one line for each kind what was strange."""
        for name in sorted({name for name, _ in self.labels}):
            zeros, ones, others = (self.labels[name, value] for value in (0, 1, None))
            if zeros and ones and not others:
                say(f"{self.name}: {zeros:,} rows have 0 as {name} and {ones:,} have 1; all are "
                    "read as pairs; if 0 marks wrong replies, write only those with 1 into a file")
        if len(self.misread) > FEW:
            text = self.misread[0]
            say(f'{self.name}: {len(self.misread):,} texts are UTF-8 that a program read as cp1252 '
                f'or Latin-1, such as "{text:.40}" for "{misread(text):.40}"; export them again')
