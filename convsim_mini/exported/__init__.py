"""What export.py writes beside a run's numbers: read model.py, then torch_module.py; card.md."""
