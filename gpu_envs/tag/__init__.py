"""Host files of WarpDrive's Tags."""
