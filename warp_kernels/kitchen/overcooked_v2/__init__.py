"""Rules of OvercookedV2-v0."""
