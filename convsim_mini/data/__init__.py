"""Text in, batches of packed ids out.

Words become ids, pairs of sentences become splits. Read prepare.py, and split.py for which split a
pair belongs to. The rest turns people's own data into pairs. Each file uses those above it:

    texts, layouts, formats     files and tables → rows
    conversations, pairs        rows of logs and chats → messages → pairs with their conversation
    units, split                pairs → conversations → train, dev or test
    passes, prepare             pairs → words → pieces, done once and then read from the cache
    labelled, vectors           labelled data and word vectors of others
"""
