"""Descriptions of the classic control environments."""
