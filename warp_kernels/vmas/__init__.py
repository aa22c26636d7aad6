"""Rules of scenarios of VMAS 1.5.2 on :mod:`warp_kernels.physics2d`."""
