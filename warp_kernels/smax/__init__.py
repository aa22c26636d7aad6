"""Battles of SMAX."""
