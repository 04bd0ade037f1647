"""Runs in; every table and figure of the paper out, as Markdown and PNG.

Read page.py, the page; compare.py sets runs side by side, here and in a terminal. What they show
is measured by evaluation/results.py.
"""
