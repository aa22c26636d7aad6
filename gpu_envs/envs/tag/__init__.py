"""Host modules of WarpDrive's Tag environments."""
