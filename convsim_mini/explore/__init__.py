"""A local web page on which to explore a run, with one panel per question."""
