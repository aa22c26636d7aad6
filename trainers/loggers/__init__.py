"""Loggers of runs: metrics.csv, TensorBoard, Weights & Biases and MLflow, one module for each."""
