"""``make gpu-report``: all measurements that need a GPU, in one command of eight minutes.

``driver.py`` prints the first line, ``report.py`` runs parts in separate processes and stores their results,
``parts.py`` measures, ``peers.py`` times other libraries, ``kernels.py`` compiles beforehand, ``page.py`` writes tables
and checks targets.
"""
