"""Drawing of SMAX."""
def draw(core, envs):
    raise NotImplementedError
