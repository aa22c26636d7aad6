"""Rules of WarpDrive's Tags."""
