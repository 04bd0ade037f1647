"""Packed ids in, vectors out; a loss and every gradient back.

Read layers.py; sparse_rows.py, embeddings.py and dan.py, the first encoder; attention.py and
transformer.py, the second; losses.py; nli.py, the second task; input_response.py, which makes one
step of all of them; projection.py, a matrix on top of the vectors; workers.py, what a step asks of
other workers. initial.py and word_vectors.py give the parameters their first values. kernels.py and
the .cu files are what a GPU runs in the place of functions that are marked @on_gpu.
"""
