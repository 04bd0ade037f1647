"""Runs in; every table and figure of the paper out, as Markdown and PNG.

Read results.py, what is measured of a run; page.py, the tables; published.json, figures of others.
compare.py sets runs side by side, here and in a terminal.
"""
