"""Batches in, trained parameters out.

Read schedule.py: what each step is; optim.py: how a step changes parameters; loop.py: step after
step; monitor.py: what is recorded and shown; distributed.py: several workers on one batch.
optim.cu: optim.py on a GPU.
"""
