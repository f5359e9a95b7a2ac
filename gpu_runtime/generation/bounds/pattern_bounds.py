"""How often a pattern repeats what repeats: xgrammar spells counts out, and needs minutes for some
within others.

``([a-z]{1,10}){1,100}`` may split a text in so many ways that no end of the work was seen;
``([a-z]{1,10},){1,100}``, in which each part has its end, takes a second.
"""

import re
from dataclasses import dataclass

MAX_NESTED = 100  # ([a-z]{1,10}){1,10} takes two seconds of a core
TOKEN = re.compile(
    r"(?P<escape>\\(?:p\{[^}]*\}|P\{[^}]*\}|.))|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?:\?(?:[:=!]|<[^>]*>?))?)"
    r"|(?P<close>\))|(?P<count>\{(?P<low>\d+)(?P<comma>,(?P<high>\d*))?\})|(?P<other>.)",
    re.DOTALL,
)
CLASSES = set("dDwWsSbBpP")


@dataclass
class _Group:
    """What was read of a group. ``repeats``: the largest product of counts of parts within parts so
    far.
    """

    repeats: int = 1
    has_fixed: bool = False  # this alternative: a character that is there each time
    always_fixed: bool = True  # the alternatives before it


def nested_repeats(pattern: str) -> int:
    """The largest product of counts of repetitions inside one another that have nothing fixed
    between them.
    """
    groups, largest = [_Group()], 1
    last_repeats, last_is_fixed = 1, False  # of the part before a count
    for token in TOKEN.finditer(pattern):
        group = groups[-1]
        if token["count"]:
            low = int(token["low"][:9])
            high = int(token["high"][:9]) if token["high"] else low
            if last_repeats > 1 and high > 1:
                largest = max(largest, last_repeats * high)
            if last_repeats > 1 or token["comma"]:
                last_repeats *= max(1, high)
            group.repeats = max(group.repeats, last_repeats)
            group.has_fixed &= not (last_is_fixed and low == 0)
            continue
        if token["other"] in ("*", "?"):
            group.has_fixed &= not last_is_fixed
            continue
        if token["open"]:
            groups.append(_Group())
            continue
        if token["close"]:
            if len(groups) > 1:
                groups.pop()
            is_fixed = group.has_fixed and group.always_fixed
            last_repeats, last_is_fixed = 1 if is_fixed else group.repeats, False
            groups[-1].repeats = max(groups[-1].repeats, last_repeats)
            continue
        if token["other"] == "|":
            group.always_fixed &= group.has_fixed
            group.has_fixed = False
            continue
        escape = token["escape"]
        last_repeats = 1
        last_is_fixed = (
            escape[1] not in CLASSES if escape else token["other"] not in (None, ".", "^", "$", "+")
        )
        group.has_fixed |= last_is_fixed
    return largest
