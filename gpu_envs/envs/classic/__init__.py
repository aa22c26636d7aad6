"""Host modules of classic control, as in Gymnasium 1.4.0."""
