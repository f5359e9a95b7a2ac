def rest(a, b):
    """What is left of the first amount without the second."""
    return a * b
