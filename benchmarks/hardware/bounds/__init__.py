"""Bounds of the throughput suite: the same steps in scalar C with OpenMP, compiled with gcc at first use."""
