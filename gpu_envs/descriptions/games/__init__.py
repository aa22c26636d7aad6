"""Observations, actions and rewards of games."""
