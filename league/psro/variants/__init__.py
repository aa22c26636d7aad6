"""Variants of PSRO: the best responses of an iteration, and the opponents that they respond to."""
