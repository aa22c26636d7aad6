"""Descriptions of the economies."""
