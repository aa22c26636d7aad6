"""Host modules of the environments on grids."""
