"""Text in, batches of packed ids out.

Words become ids, sentences become splits of pairs that leave in batches. Read corpus.py. You may
skip the rest. Files and tables as people have them become pairs in formats.py, tables.py,
layouts.py, conversations.py and pairs.py; prepare.py puts pairs on disk in the two passes of
passes.py; labelled.py and snli.py read labelled data sets.
"""
