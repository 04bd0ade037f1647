"""Text in, batches of packed ids out.

Words become ids, sentences become `Packed`, and batches of them leave in random order. Read
packed.py, text.py, corpus.py. You may skip the rest: pairs.py and tables_and_logs.py, files as
people have them; prepare.py, a corpus on disk; snli_files.py and snli.py, natural language
inference.
"""
