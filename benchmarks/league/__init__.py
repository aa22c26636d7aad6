"""Demonstrations of leagues, cross-play, and the scaling of executors."""
