"""Text in, batches of packed ids out.

Pair files and the corpus of natural language inference come in as text. Words become ids, sentences
become `Packed`, and batches of them leave in random order. Read packed.py, then text.py, pairs.py,
corpus.py, prepare.py, snli.py.
"""
