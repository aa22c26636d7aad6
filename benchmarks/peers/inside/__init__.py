"""Programs that run in the virtual environment of a peer; only ``interface.py`` imports this project."""
