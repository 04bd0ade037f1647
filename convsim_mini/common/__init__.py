"""What all commands share: one-line errors, text files, files written atomically, figures."""
