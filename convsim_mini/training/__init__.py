"""The training of a run, from its initial values to its last step; core has the steps themselves.

Read initial.py and word_vectors.py (initial values), tasks.py (what each step trains on), loop.py,
run.py (a run's files) and monitor.py; then settings.py and options.py (what a user gives), and
workers.py (several processes).
"""
