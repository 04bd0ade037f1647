"""Packed ids in, vectors out; a loss and every gradient back.

Read layers.py, then embeddings.py and dan.py, the first encoder; attention.py and transformer.py,
the second; losses.py; input_response.py, which makes one step of it all, with nli.py for the
second task. initial.py and word_vectors.py say where parameters start.
"""
