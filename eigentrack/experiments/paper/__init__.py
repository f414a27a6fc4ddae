"""The tables and figures of the paper, as definitions that share their tasks, models and budgets."""
