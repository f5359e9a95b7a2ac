"""What device time costs, at the prices of today, and who used it."""

from collections import defaultdict
from collections.abc import Mapping

from django.conf import settings
from django.db.models import F

from console.sessions.limits.usage import Spent, spent_in_all
from console.users.models import ApiKey, Membership, Project
from tinkerscript.wire.projects import DevicePrices, PayerUsage

UNKNOWN = "no longer known, or no longer members"


def prices_get() -> DevicePrices | None:
    """What a device-hour costs; None where the server has no prices."""
    prices = settings.DEVICE_PRICES
    return (
        None
        if prices is None
        else DevicePrices(currency=prices.currency, gpu=prices.gpu, cpu=prices.cpu)
    )


def usage_by_key(*, project: Project) -> list[PayerUsage]:
    """What the sessions of each key used, the most used first."""
    names = dict(ApiKey.objects.filter(project=project).values_list("id", "name"))
    return _payers(spent_in_all("key_id", project_id=project.id, key_id__isnull=False), names)


def usage_by_member(*, project: Project) -> list[PayerUsage]:
    """What the sessions of each member used, by hand or by key, deleted sessions too."""
    spent = spent_in_all("person_id", project_id=project.id)
    members = Membership.objects.filter(project=project, user__isnull=False)
    known = {
        user: (member, email)
        for user, member, email in members.values_list("user", "member_id", F("user__email"))
    }
    merged: defaultdict[str | None, Spent] = defaultdict(Spent)
    for user, one in spent.items():
        merged[known[user][0] if user in known else None].add(one)
    return _payers(merged, dict(known.values()))


def _payers(spent: Mapping[str | None, Spent], names: Mapping[str, str]) -> list[PayerUsage]:
    payers = [
        PayerUsage(
            id=who,
            name=(names.get(who) or who) if who else UNKNOWN,
            device_s=one.device_s,
            cost=one.cost,
        )
        for who, one in spent.items()
    ]
    return sorted(payers, key=lambda payer: -payer.device_s)
