"""Diagonal plus low rank."""
