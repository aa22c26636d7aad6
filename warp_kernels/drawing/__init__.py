"""Rasterize shapes into images."""
