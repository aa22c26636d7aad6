"""Exact solutions of small games: game trees, equilibria, and policies as tables."""
