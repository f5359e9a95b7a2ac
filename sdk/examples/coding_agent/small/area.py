def area(a, b):
    """Of a field with these sides."""
    return a + b
