"""Text in, batches of packed ids out.

Pair files and the corpus of natural language inference come in as text; tokens become word ids,
sentences become `Packed`, and what leaves is a batch of them in random order. Read packed.py, then
text.py, pairs.py, corpus.py, snli.py.
"""
