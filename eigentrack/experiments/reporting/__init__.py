"""What becomes of an experiment's results: a page, its tables, plots, and the kinds of findings that it may list."""
