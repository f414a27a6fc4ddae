"""Matrices with one entry per column."""
