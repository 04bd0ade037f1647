"""Batches in, trained parameters out.

Read schedule.py, which says what each step is; optim.py, how a step changes parameters; and
monitor.py, what is shown and recorded.
"""
