def draw(worlds, envs):
    raise NotImplementedError
