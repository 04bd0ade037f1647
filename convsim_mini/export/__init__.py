"""A run as a folder for sentence-transformers, or for NumPy alone.

Read __main__.py, the command; model.py, a DAN in whole; transformer.py, which is put behind it for
a Transformer; torch_module.py; card.md; model_card.py, what a card says of a run.
"""
