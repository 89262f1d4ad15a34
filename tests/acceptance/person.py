"""Whoever is sent to the consent page: by hand, following its forms as a browser would, or with Chromium."""

import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from urllib.parse import urlsplit

import httpx

from tests.acceptance import peers

Person = Callable[[str, str, tuple[str, ...]], str]
"""Goes to an address, signs in with a key, and allows some scopes: all that are offered when none is named.
Returns the address that it was sent back to."""
_HIDDEN = re.compile(r'name="ticket" value="([^"]*)"')
_TICKED = re.compile(r'name="(scope|agent)" value="([^"]*)" checked')


def by_hand(address: str, key: str, scopes: tuple[str, ...]) -> str:
    with httpx.Client(timeout=30, trust_env=False) as http:
        assert http.get(address).status_code == 200
        page = http.post(address, data={"decision": "sign-in", "key": key})
        assert page.status_code == 200, page.text
        hidden = _HIDDEN.search(page.text)
        assert hidden is not None
        form: dict[str, list[str]] = {"decision": ["allow"], "ticket": [unescape(hidden[1])]}
        for name, value in _TICKED.findall(page.text):
            if name == "agent" or not scopes or value in scopes:
                form.setdefault(name, []).append(unescape(value))
        allowed = http.post(address, data=form)
        assert allowed.status_code == 303, allowed.text
        assert http.get(allowed.headers["location"]).status_code == 200
        return str(allowed.headers["location"])


def with_chromium(address: str, key: str, scopes: tuple[str, ...]) -> str:
    """Raises peers.Missing without a Chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise peers.Missing("chromium is not on the PATH")
    command = [str(peers.node()), str(peers.CLIENTS / "person.mjs"), chromium, address, key, *scopes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    back = done.stdout.split()[0]
    assert urlsplit(back).hostname in {"127.0.0.1", "localhost"}, done.stdout
    return back
