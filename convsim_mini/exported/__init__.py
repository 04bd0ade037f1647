"""What export.py writes beside a run's numbers.

Read model.py, which is all of a DAN; transformer.py, which a Transformer's model.py holds, too;
torch_module.py; card.md.
"""
