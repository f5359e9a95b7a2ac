"""What a session costs, and where its budget is heading at the pace that it had so far."""

from collections.abc import Iterator

from console.sessions.budgets import KEY_LIMIT, session_limits
from console.sessions.limits.costs import prices_get
from console.sessions.limits.usage import Spent, session_spent
from console.sessions.models import Session
from console.sessions.states import ENDED
from console.sessions.transitions import WITH_RUNTIME
from tinkerscript.wire.projects import DevicePrices, LimitForecast, SessionSpending
from tinkerscript.wire.sessions import SessionState

# a runtime that has not registered may wait in a cluster
WITH_DEVICES = WITH_RUNTIME - {SessionState.PROVISIONING}


def session_spending(*, session: Session, with_key: bool) -> SessionSpending:
    """What it used up to its runtime's last heartbeat, and when each of its limits is reached.

    ``with_key``: the cap of the key that started it too.
    """
    spent, prices = session_spent(session=session), prices_get()
    per_hour = _per_hour(session, prices) if session.state in WITH_DEVICES else None
    return SessionSpending(
        runtime_s=spent.runtime_s,
        device_s=spent.device_s,
        cost=spent.cost,
        cost_per_hour=per_hour,
        prices=prices,
        limits=[
            limit
            for limit in _forecasts(session, spent, per_hour)
            if with_key or limit.limit != KEY_LIMIT
        ],
    )


def _per_hour(session: Session, prices: DevicePrices | None) -> float | None:
    if prices is None:
        return None
    return session.devices * prices.gpu if session.devices else prices.cpu


def _forecasts(session: Session, spent: Spent, per_hour: float | None) -> Iterator[LimitForecast]:
    for name, allowed, used in session_limits(session):
        is_clock = name == "wall_s"  # it goes on while no runtime is there, and costs nothing then
        pace = 1.0 if is_clock else _pace(session, name, used, spent)
        left_s = (
            max(0.0, allowed - used) / pace if pace > 0 and session.state not in ENDED else None
        )
        rate = per_hour if is_clock else _mean_per_hour(spent)
        cost = None
        if spent.cost is not None and rate is not None and left_s is not None:
            cost = spent.cost + rate * left_s / 3600
        yield LimitForecast(
            limit=name, allowed=allowed, used=used, left_s=left_s, cost_at_limit=cost
        )


def _pace(session: Session, limit: str, used: float, spent: Spent) -> float:
    """What a second of the session's runtimes used of the limit; 0 where that is not known."""
    if spent.runtime_s <= 0 or (limit == KEY_LIMIT and _shares_its_key(session)):
        return 0.0
    if limit == "hours":
        return 1 / 3600
    return (used if limit == "steps" else spent.device_s) / spent.runtime_s


def _shares_its_key(session: Session) -> bool:
    """Whether other sessions of its key have a runtime: they use the key's cap too, each at a pace
    of its own.
    """
    return (
        Session.objects.filter(key_id=session.key_id, state__in=WITH_RUNTIME)
        .exclude(id=session.id)
        .exists()
    )


def _mean_per_hour(spent: Spent) -> float | None:
    return (
        None if spent.cost is None or spent.runtime_s <= 0 else spent.cost / spent.runtime_s * 3600
    )
