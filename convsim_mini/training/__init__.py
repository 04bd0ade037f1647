"""What train.py calls in order to train a run; core has the steps themselves.

Read start.py (initial values), tasks.py (what each step trains on), run.py (a run's files),
measures.py (how good a model is) and monitor.py (how training is watched); then options.py (what a
user gives; config.py has the settings) and workers.py (several processes).
"""
