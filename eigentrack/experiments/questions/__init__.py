"""Experiments on what the paper leaves open, one definition each."""
