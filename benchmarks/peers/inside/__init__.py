"""What runs inside a peer's environment. Nothing here imports anything of this project but ``child.py``."""
