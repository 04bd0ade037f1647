"""Text in, batches of packed ids out.

Words become ids, pairs of sentences become splits, which are served in batches. Read corpus.py.
You may skip the rest, which turns people's own data into a corpus. Each file uses those above it:

    texts.py            a cell → its text
    layouts.py          the names of columns → what the rows hold
    formats.py          a file or a table → records, (number, row or ValueError)
    conversations.py    records of logs and chats → messages → rows of input and response
    doubts.py           what is strange about pairs: labels of 0 and 1, misread UTF-8, one reply
    pairs.py            records, or those rows → Parts of Pairs; the paper's filters
    split.py            where pairs come from → train, dev or test; no conversation is cut
    passes.py           Pairs → words → pieces, on disk
    prepare.py          all of this, done once and then read from the cache

labelled.py and snli.py read labelled data, vectors.py the word vectors of others.
"""
