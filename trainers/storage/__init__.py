"""Folders and files of a run: checkpoints, metrics, recordings, exported policies, the model zoo."""
