"""The definition of an experiment: a table of tasks and models, budgets, the paper's values, and what theory says."""
