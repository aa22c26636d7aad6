"""Descriptions of the environments on grids."""
