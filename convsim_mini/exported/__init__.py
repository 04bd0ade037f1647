"""What export.py writes beside a run's numbers.

Read model.py, a DAN in whole; transformer.py, which export.py puts behind it for a Transformer;
torch_module.py; card.md.
"""
