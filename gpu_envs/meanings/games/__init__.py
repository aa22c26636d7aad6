"""What the numbers of games mean."""
