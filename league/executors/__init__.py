"""Executors of a run's tasks: in this process, in other processes of this machine, or on a Ray cluster.

    PSRO(store, config, executor=LocalExecutor())
    PSRO(store, config, executor=RayExecutor(address="auto", gpus_per_learner=0.5))

The results do not depend on the executor. One process, the coordinator, owns populations, payoffs and schedule, and
writes the store.
"""
