"""A trained run in, figures out: one plain script a task.

Read response.py, then sts.py, nli.py, cqa.py, attention.py; baselines.py and word_baselines.py say
what can be had without training; metrics.py and plots.py how figures are computed and drawn.
"""
