"""A reward for loads that measure speed: any number will do that differs between answers."""


def any_reward(text: str) -> float:
    """Of [0, 1): a checksum of the text."""
    return sum(place * ord(letter) for place, letter in enumerate(text, start=1)) % 1009 / 1009
