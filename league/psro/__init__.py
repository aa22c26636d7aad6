"""Policy-space response oracles: the loop, its variants and its oracles."""
