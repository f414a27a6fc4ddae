"""The chunked forms: matrix products within chunks of tokens, a short loop over chunks. Plain torch, any device, any float dtype."""
