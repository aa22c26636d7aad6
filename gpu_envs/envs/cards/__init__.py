"""Host modules of the cooperative card games."""
