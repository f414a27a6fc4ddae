"""Linear RNNs that can track state."""
