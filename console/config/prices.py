"""What an hour of a device costs: TINKERSCRIPT_PRICES, such as ``gpu=2.40,cpu=0.05,currency=EUR``.

gpu       one GPU of a runtime, for an hour
cpu       a runtime that has no GPU, for an hour
currency  three letters as ISO 4217 has them; USD when it is not given

Both kinds are named, with 0 for what costs nothing: a sum in which a part has no price would be no
sum. Without the setting no money is shown anywhere.
"""

import re
from dataclasses import dataclass

from django.core.exceptions import ImproperlyConfigured

from console.config.environment import read_pairs

NAME = "TINKERSCRIPT_PRICES"
FORM = "gpu=2.40,cpu=0.05,currency=EUR"
PRICE = re.compile(r"\d{1,7}(\.\d{1,6})?", re.ASCII)


@dataclass(frozen=True)
class DevicePrices:
    """Of a device-hour by kind, in ``currency``."""

    gpu: float
    cpu: float
    currency: str = "USD"


def prices_read() -> DevicePrices | None:
    """None where none are set. Raises ImproperlyConfigured."""
    given = read_pairs(NAME, form=FORM)
    if not given:
        return None
    currency = given.pop("currency", "USD")
    if not re.fullmatch(r"[A-Z]{3}", currency):
        raise ImproperlyConfigured(
            f"{NAME}: currency={currency!r} is not three capital letters, such as EUR."
        )
    if wrong := [f"{kind}={price}" for kind, price in given.items() if not PRICE.fullmatch(price)]:
        raise ImproperlyConfigured(f"{NAME}: {wrong[0]!r} is not a price of an hour, such as 2.40.")
    if given.keys() != {"gpu", "cpu"}:
        raise ImproperlyConfigured(
            f"{NAME} prices {', '.join(sorted(given)) or 'nothing'}; it names gpu and cpu, and may "
            "name a currency: "
            f"{FORM}."
        )
    return DevicePrices(gpu=float(given["gpu"]), cpu=float(given["cpu"]), currency=currency)
