"""Runs in; every table and figure of the paper out, as Markdown and as a page for a browser.

Read results.py, what is measured of a run; page.py, the tables; claims.py, the paper's claims;
published.json, figures of others; web_page.py, a run to look at; blocks.py, the writer of both.
Three files are commands of their own: fractions.py trains figure 8's runs, learning_curve.py draws
P@1 and STS against the number of pairs, against_words.py compares a run with words alone. A
fourth, compare.py, sets runs side by side, here and in a terminal.
"""
