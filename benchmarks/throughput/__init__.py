"""Throughput of stepping: contenders, rounds and comparisons."""
