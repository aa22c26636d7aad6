"""What the numbers of classic control mean."""
