"""The training of a run, from its initial values to its last step; core has the steps themselves.

Read start.py (initial values), tasks.py (what each step trains on), steps.py,
run.py (a run's files), dev.py and monitor.py; then options.py (what a user gives; config.py has the
settings) and workers.py (several processes).
"""
