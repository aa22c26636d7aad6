"""Rules of RobotWarehouse-v0."""
