"""The machine: bandwidth, lower bounds in C, measurements in separate processes, provenance."""
