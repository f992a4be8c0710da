"""Self-attention from scratch: one file a part."""
