from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette

from callmcp.agents.operations import Agents
from callmcp.calls.operations import Calls
from callmcp.calls.policy.operations import Deployment, Policy
from callmcp.clock import TestClock
from callmcp.identity.audit import Trail
from callmcp.llm.models import Models
from callmcp.numbering import PhoneNumbersPlan
from callmcp.telephony.twilio.addresses import Addresses
from callmcp.telephony.twilio.client import TwilioTelephony
from callmcp.telephony.twilio.inbox import Inbox
from callmcp.telephony.twilio.routes import TwilioRoutes
from tests.contracts.values import an_agent
from tests.telephony.twilio.api import ACCOUNT, FROM, TOKEN, api
from tests.telephony.twilio.desk import NEW_TOKEN, PUBLIC, Carrier, Desk, Shelf


@pytest.fixture(scope="module")
async def carrier() -> AsyncIterator[Carrier]:
    """To make a client takes a tenth of a second."""
    async with api() as server:
        clock, addresses = TestClock(), Addresses(PUBLIC)
        telephony = TwilioTelephony(
            account_sid=ACCOUNT,
            username=ACCOUNT,
            password=TOKEN,
            caller_id=FROM,
            addresses=addresses,
            clock=clock,
            api_url=server.url,
        )
        yield Carrier(clock, server, addresses, telephony)
        await telephony.close()


@pytest.fixture
async def desk(carrier: Carrier) -> AsyncIterator[Desk]:
    clock, store = carrier.clock, Shelf()
    carrier.api.asked.clear()
    agents = Agents(store, Models(), Trail(store, clock), clock)
    calls = Calls(
        store=store,
        agents=agents,
        telephony=carrier.telephony,
        policy=Policy(store=store, audit=store, numbers=PhoneNumbersPlan(), clock=clock, deployment=Deployment()),
        clock=clock,
        owner="process-1",
    )
    inbox = Inbox(
        store=store,
        calls=calls,
        clock=clock,
        addresses=carrier.addresses,
        account_sid=ACCOUNT,
        tokens=(TOKEN, NEW_TOKEN),
    )
    agent = an_agent()
    await store.add_agent(agent)
    routes = TwilioRoutes(
        inbox=inbox, calls=calls, agents=agents, models=Models(), clock=clock, addresses=carrier.addresses
    )
    app = Starlette(routes=routes.routes())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://inside", trust_env=False) as http:
        yield Desk(clock, store, carrier.api, carrier.telephony, calls, inbox, agent, routes, app, http)
    await calls.close()
