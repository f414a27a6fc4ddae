"""Running and storing cells, each one training run and its test: by itself, in a sweep, or over a cluster."""
