"""The API reference and the pages of endpoints in Chromium: nothing from elsewhere, and requests as
the person.
"""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.test import Client
from playwright.async_api import Page, async_playwright, expect

from console.sessions.models import Session
from support import factories
from support.chromium import SWITCHES, WITHIN_MS, chromium_need

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("asgi_server", ["uvicorn"], indirect=True),
]

# Elsewhere is refused by Chromium itself as well: no name but this machine's has an address.
NOWHERE_ELSE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


@pytest.fixture
async def page(origin: str, alice) -> AsyncIterator[Page]:
    """Alice's browser. At its end: every request went to this server, no script failed, the policy
    blocked nothing.
    """
    program = chromium_need()
    client = Client()
    await sync_to_async(client.force_login)(alice)
    cookie = {
        "name": settings.SESSION_COOKIE_NAME,
        "value": client.cookies["sessionid"].value,
        "url": origin,
    }
    asked: list[str] = []
    problems: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=str(program), args=[*SWITCHES, NOWHERE_ELSE]
        )
        context = await browser.new_context(base_url=origin)
        context.set_default_timeout(WITHIN_MS)
        await context.add_cookies([cookie])
        page = await context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console",
            lambda said: (
                problems.append(said.text) if "Content Security Policy" in said.text else None
            ),
        )
        yield page
        await browser.close()
    elsewhere = {
        url for url in asked if urlsplit(url).scheme != "data" and not url.startswith(origin + "/")
    }
    assert elsewhere == set()
    assert problems == []


async def test_the_reference_sends_requests_in_the_persons_own_session(page: Page, project) -> None:
    await sync_to_async(factories.session_make)(project, name="seen by try it out")
    await page.goto("/docs")
    operation = page.locator("#operations-default-session_list")
    await operation.locator(".opblock-summary").first.click()
    await operation.get_by_role("button", name="Try it out").click()
    await operation.get_by_role("button", name="Execute").click()
    await expect(
        operation.locator(".live-responses-table tbody .response-col_status").first
    ).to_contain_text("200")
    await expect(operation.locator(".live-responses-table")).to_contain_text("seen by try it out")


async def test_the_reference_may_write(page: Page, project) -> None:
    session = await sync_to_async(factories.session_make)(project)
    await page.goto("/docs")
    operation = page.locator("#operations-default-session_stop")
    await operation.locator(".opblock-summary").first.click()
    await operation.get_by_role("button", name="Try it out").click()
    await operation.locator("tr[data-param-name=session_id] input").fill(session.id)
    await operation.get_by_role("button", name="Execute").click()
    await expect(
        operation.locator(".live-responses-table tbody .response-col_status").first
    ).to_contain_text("200")
    assert (await Session.objects.aget(id=session.id)).state == "cancelled"
