"""Commands of `gpu-envs` for leagues, and `gpu-envs watch`."""
