"""Experiments as data: what each table, figure or question varies, how its cells are run, and how they are reported.

catalogue.py   every experiment by name
running/       how one cell is trained, tested and stored; sweeps of many
design/        what an experiment is: panels × series × rates × seeds, at a budget
reporting/     pages, tables, plots and kinds of findings
language/      the same for language models
paper/         the paper's tables and figures
questions/     what the paper leaves open
studies/       what is measured of networks after their training
"""
