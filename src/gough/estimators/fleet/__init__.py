"""Many machines of one kind: what they have in common, how each differs, and what changes over time."""
