"""A user's code, for mypy: it sees the type hints and both mistakes. Nothing here is run."""

from typing import assert_type

import convsim_mini

encoder = convsim_mini.fit([("How old are you?", "Seven.")], run="runs/mine", steps=300)
encoder = convsim_mini.load("runs/mine", tuned=True)
assert_type(encoder.similarity(encoder.encode(["a"]), encoder.transform("b")).tobytes(), bytes)
encoder.encode([1, 2])  # type: ignore[list-item]
encoder.search(encoder, "one")  # type: ignore[arg-type]
