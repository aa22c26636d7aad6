"""Descriptions of games with hidden information or simultaneous moves."""
