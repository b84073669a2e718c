"""The load a robot carries, sample by sample."""
