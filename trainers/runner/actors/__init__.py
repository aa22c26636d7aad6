"""Asynchronous training: actors sample without pause, and the learner takes their trajectories from a queue.

    RolloutActor (one per thread or Ray process) --Trajectory--> TrajectoryQueue --> AsyncCollector --> learners
         ^                                                                                 |
         +------------------------------- weights with their version ----------------------+

The version of the weights is the number of updates that made them. The staleness of a trajectory is the number of
updates between the weights that sampled it and those that learn from it.
"""
