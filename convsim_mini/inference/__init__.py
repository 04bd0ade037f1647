"""Sentences in, vectors out; an index of lines to search."""
