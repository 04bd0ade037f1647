"""From runs to every table and figure of the paper, as Markdown and PNG.

Read page.py, which makes the page, and compare.py, which sets runs side by side, in the page and in
a terminal. evaluation/results.py measures what they show.
"""
