"""Sentences in, vectors out; an index of rows to search; replies to a message."""
