"""``make gpu-report``: everything that only a machine with a GPU can tell, in one command of eight minutes.

``report.py`` runs parts in processes of their own and keeps what each of them has told; ``parts.py`` measures,
``peers.py`` times other libraries, ``kernels.py`` compiles beforehand, ``page.py`` draws the tables and judges goals.
"""
