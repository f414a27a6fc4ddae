"""Parts that the ops share: dispatch, packing, launches, chunks, rotations."""
