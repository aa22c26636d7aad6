"""Resources of the GPU kernels of every environment: registers, stack, spills and theoretical occupancy."""
