"""Batches of environments on one or several devices."""
