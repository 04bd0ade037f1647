"""A run as a folder for sentence-transformers, or for just NumPy and regex.

Read __main__.py, the command; model.py, which opens such a folder; torch_module.py; card.md.
"""
