"""Rules of the cooperative card games."""
