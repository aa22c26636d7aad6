"""What runs inside a peer's environment. It imports nothing of this project but ``child.py``, save for ``door.py``."""
