"""Rules of LevelBasedForaging-v0."""
