"""Text in, batches of packed ids out.

Words become ids, sentences become splits of pairs that leave in batches. Read corpus.py. You may
skip the rest. What people have becomes pairs in formats.py, layouts.py, conversations.py and
pairs.py; prepare.py puts these on disk in two passes; labelled.py and snli.py read labelled data.
"""
