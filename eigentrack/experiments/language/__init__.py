"""Experiments on language models: their cells, budgets, tests, tables and plots. Nothing else here imports eigentrack.lm."""
