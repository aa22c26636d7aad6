"""Batches of environments on a CPU or a GPU."""
