"""What a predictor computes: features, heads, the layers below them, and the roll-out."""
