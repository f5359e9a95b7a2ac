"""A downloaded model in the formats of other programs."""
