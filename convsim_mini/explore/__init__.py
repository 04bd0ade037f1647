"""A run in; a local page to look at it out, one panel for each question."""
