"""Host modules of MPE, as in mpe2 1.1.1; :mod:`gpu_envs.mpe` is a drop-in replacement of mpe2."""
