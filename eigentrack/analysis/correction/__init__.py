"""Correction of trained networks: codes, the closing phase, streaming tests and the proof."""
