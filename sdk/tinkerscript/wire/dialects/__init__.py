"""The dialects in which a model is called: their paths and their error bodies."""
