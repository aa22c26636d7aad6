"""Host modules of VMAS's scenarios, as in VMAS 1.5.2."""
