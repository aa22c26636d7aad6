"""Observations, actions and rewards of the Multi-Agent Particle Environments."""
