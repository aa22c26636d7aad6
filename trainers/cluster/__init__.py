"""Training on many machines, with Ray: `pip install 'gpu-envs[ray]'`. Nothing else imports Ray."""
