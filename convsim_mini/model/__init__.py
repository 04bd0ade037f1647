"""Packed ids in, vectors out; a loss and every gradient back.

Read layers.py, sparse_rows.py, embeddings.py and dan.py, the first encoder; losses.py;
input_response.py, which makes one step of all of them. You may skip the rest: attention.py and
transformer.py, the second encoder; nli.py, the second task; projection.py, a matrix on top of the
vectors; word_counts.py, the half of a vector that counts words; initial.py and word_vectors.py, the
first values; gradcheck.py; kernels.py and the .cu files, which a GPU runs in the place of functions
that are marked @on_gpu; loops.py, which numba compiles in the place of those marked @compiled.
"""
