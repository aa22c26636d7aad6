"""Host modules of the economies."""
