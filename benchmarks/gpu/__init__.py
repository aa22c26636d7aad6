"""``make gpu-report``: all measurements that need a GPU, in one command of eight minutes.

``gpu_report.py`` runs the parts of ``plan.py`` in separate processes (``process.py``) and stores their results
(``results.py``). ``facts.py`` is the first of them: the machine. ``parts.py`` measures, ``peers.py`` times other
libraries, ``kernels.py`` compiles beforehand, ``page.py`` writes tables and checks targets.
``wheels.py`` lists the wheels to carry to a machine without network access.
"""
