"""Search for the K nearest agents: by brute force, and in a grid of cells."""
