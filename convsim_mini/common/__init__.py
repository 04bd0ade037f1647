"""What all commands share: mistakes in one line, text files, files written whole, figures."""
