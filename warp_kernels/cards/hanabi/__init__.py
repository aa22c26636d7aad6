"""Rules of Hanabi-v0."""
