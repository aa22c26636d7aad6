"""Leagues of players that train side by side, as in AlphaStar."""
