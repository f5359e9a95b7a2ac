"""Text on narrow screens."""


def wrapped(text, width):
    """The words of ``text`` in lines of at most ``width`` letters; a longer word has a line of its
    own."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}"
    return lines
