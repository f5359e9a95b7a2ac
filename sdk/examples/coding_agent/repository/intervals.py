"""Half-open intervals of whole numbers, as pairs (start, end)."""


def merged(intervals):
    """The intervals in order, with those that overlap or touch as one."""
    found = []
    for start, end in sorted(intervals):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
