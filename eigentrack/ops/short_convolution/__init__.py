"""The short causal convolution."""
