"""ai-economist as a peer: one world in NumPy."""
