"""What all commands share: one-line errors, files written atomically, tables and figures."""
