"""What the numbers of Tag mean."""
