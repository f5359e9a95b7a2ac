"""The Tinker sessions that share a runtime: whose models and samplers are here, and which of them
are over.
"""

import asyncio
import logging

from gpu_runtime.control_plane.agent import Agent
from gpu_runtime.errors import ControlPlaneLost, ControlPlaneRefused, LeaseLost, StoreUnavailable
from gpu_runtime.gateway.tinker.ledger import Ledger
from gpu_runtime.gateway.tinker.routes import Samplers
from tinkerscript.wire.tinker.messages import MAX_ASKED, ClientsOver, ClientsServed

ASK_S, ASK_DEADLINE_S = 5.0, 60.0
log = logging.getLogger(__name__)


class Clients:
    """Asks the control plane which clients are over, and lets go of what is theirs."""

    def __init__(self, ledger: Ledger, samplers: Samplers) -> None:
        self._ledger, self._samplers = ledger, samplers

    async def run(self, agent: Agent) -> None:
        """Ask every ASK_S, without end."""
        while True:
            await asyncio.sleep(ASK_S)
            await self.ask(agent)

    async def ask(self, agent: Agent) -> None:
        """Once. Where the control plane is away the next time asks again."""
        here = sorted(self._ledger.clients | self._samplers.clients)
        if not here:
            return
        wanted = ClientsServed(clients=here[:MAX_ASKED])
        try:
            answer = await agent.call(
                "/v1/runtime/tinker-clients", wanted, ClientsOver, deadline_s=ASK_DEADLINE_S
            )
        except ControlPlaneRefused as refused:
            log.warning("which clients are over is not told: %s", refused)
            return
        except (ControlPlaneLost, StoreUnavailable, LeaseLost):
            return
        for client in answer.over:
            self._samplers.client_over(client)
            self._ledger.client_over(client)
