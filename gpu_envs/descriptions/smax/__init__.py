"""Descriptions of battles."""
