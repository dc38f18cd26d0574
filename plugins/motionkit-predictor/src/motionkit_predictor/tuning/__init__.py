"""Settings that suit data, and searches for them."""
