"""Drive gains from currents and a payload that was weighed."""
