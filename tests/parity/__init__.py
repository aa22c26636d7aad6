"""Environments compared with an oracle, the state copied across before every step."""
