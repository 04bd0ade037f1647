"""A run as a folder for sentence-transformers, or for just NumPy, SciPy, regex."""
