"""Text in, batches of packed ids out.

Words become ids, sentences become splits of pairs, which are served in batches. Read corpus.py.
You may skip the rest: formats.py, layouts.py, conversations.py and pairs.py turn what people have
into pairs; prepare.py writes these to disk in two passes; labelled.py, snli.py read labelled data.
"""
