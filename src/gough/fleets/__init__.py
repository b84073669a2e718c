"""Many robots of one kind: their mean, the deviation of each, drifts and faults."""
