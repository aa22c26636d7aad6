"""Observations, actions and rewards of Tag."""
