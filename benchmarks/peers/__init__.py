"""Other libraries to compare with, each in its own virtual environment.

``NAME.txt`` pins its packages; ``make bench-peers`` installs it under ``out/peers/NAME``.
Programs in ``inside/`` run there with the line protocol of ``inside/child.py``; ``process.py`` is the parent side.
"""
