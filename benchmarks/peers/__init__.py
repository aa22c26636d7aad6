"""Other libraries to compare with, each in a virtual environment of its own.

``NAME.txt`` pins what such an environment holds; ``make bench-peers`` installs it under ``out/peers/NAME``.
``inside/`` is what runs there, over the line protocol of ``inside/child.py``; ``process.py`` is this side of it.
"""
