"""Which parameters, which friction, which legs alike: the choice of the model."""
