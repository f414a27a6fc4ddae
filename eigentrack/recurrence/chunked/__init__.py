"""The chunked forms: matrix products within chunks, a short loop over chunks. Plain torch, any device, any float dtype."""
