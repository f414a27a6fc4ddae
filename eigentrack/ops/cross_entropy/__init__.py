"""Cross-entropy of a linear head."""
