"""Batches in, trained parameters out.

Read schedule.py: what each step is; optim.py: how a step changes parameters; loop.py: step after
step. You may skip the rest: monitor.py, what is recorded and shown; run.py, a run's folder;
options.py, the command line; stopping.py, signals and failures; workers.py and distributed.py,
several processes on one batch; optim.cu, optim.py on a GPU.
"""
