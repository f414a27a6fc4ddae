"""The report of an experiment: its page, tables and plots, and the kinds of answers and findings on it."""
