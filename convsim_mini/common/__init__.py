"""What all commands share: one-line errors, lines, files written atomically, tables, figures."""
