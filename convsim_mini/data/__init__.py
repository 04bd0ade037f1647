"""Text in, batches of packed ids out.

Words become ids, sentences become splits of pairs that leave in batches. Read corpus.py. You may
skip the rest: pairs.py and tables_and_logs.py, files as people have them; prepare.py, a corpus on
disk; labelled.py, what stands in labelled data sets; snli.py, natural language inference.
"""
