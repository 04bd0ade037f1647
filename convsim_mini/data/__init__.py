"""Text in, splits of packed ids out.

Words become ids, pairs of sentences become splits. Read prepare.py, and split.py for which split a
pair belongs to. The rest turns people's own data into pairs. Each file uses those above it:

    layouts, tables, formats    tables in memory and files → rows
    texts, filters              what a text is; which texts the paper leaves out
    conversations, pairs        rows of logs and chats → messages → pairs with their conversation
    units, split                pairs → conversations → train, dev or test
    passes, prepare             pairs → words → pieces, done once and then read from the cache
    labelled, vectors           labelled data and word vectors of others
"""
