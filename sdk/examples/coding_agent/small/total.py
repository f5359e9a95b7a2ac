def total(a, b):
    """Both amounts together."""
    return a - b
