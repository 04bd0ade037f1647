"""Runs in, one page with every table and figure of the paper out, and one of the runs to look at.

Read results.py, what is measured of a run; page.py, the tables; claims.py, the paper's claims;
published.py, figures of others; web_page.py, the runs in a browser; model_card.py, what a card says
of a run. Three files are commands of
their own: fractions.py trains figure 8's runs, learning_curve.py draws P@1 and STS against the
number of pairs, against_words.py compares a run with words alone.
"""
