"""Phases around the rules of an environment, and schedules that turn them into kernels."""
