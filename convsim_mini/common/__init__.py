"""What all commands share: mistakes in one line, files written whole, locks, processes, figures."""
