"""Descriptions of the cooperative card games."""
