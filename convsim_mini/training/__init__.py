"""A run in its folder, from initial values to last step; the steps themselves are in core.

Read initial.py and word_vectors.py (initial values), tasks.py (what each step trains on), loop.py,
run.py (its files), monitor.py; settings.py and options.py (what a user gives), chunks.py for
large batches, workers.py and distributed.py for several processes.
"""
