"""Text in, batches of packed ids out.

Words become ids, sentences become splits of pairs, which are served in batches. Read corpus.py.
You may skip the rest, which turns what people have into a corpus, each file using those above it:

    texts.py            a cell → its text
    layouts.py          the names of columns → what the rows hold
    formats.py          a file or a table → records, (number, row or ValueError)
    conversations.py    records of logs and chats → messages → rows of input and response
    pairs.py            records or such rows → Parts of Pairs; the paper's filters
    passes.py           Pairs → words → pieces, on disk
    prepare.py          all of this once, then from the cache

labelled.py and snli.py read labelled data.
"""
