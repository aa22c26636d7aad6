"""Rules of the environments on grids."""
