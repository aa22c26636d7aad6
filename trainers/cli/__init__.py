"""Commands of `gpu-envs` that train, evaluate and export policies."""
