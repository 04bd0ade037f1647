"""Runs in, one page with every table and figure of the paper out.

Read results.py, what is measured of a run; page.py, the tables; claims.py, the paper's claims;
published.py, figures of others. fractions.py is a command of its own. It trains figure 8's runs.
"""
