"""Rules of Overcooked-v0."""
