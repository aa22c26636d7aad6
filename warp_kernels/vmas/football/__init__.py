"""Rules of VMASFootball-v0."""
