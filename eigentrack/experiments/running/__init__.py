"""How a cell, one training run and its test, is run and stored: by itself, in a sweep, over a cluster."""
