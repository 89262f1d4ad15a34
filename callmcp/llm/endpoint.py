"""Whether an OpenAI-compatible endpoint answers and has a model, by its list of models: that costs nothing."""

from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urldefrag

import httpx

SECONDS = 3.0
SHOWN = 5


class Readiness(StrEnum):
    READY = "ready"
    NOT_READY = "not ready"
    UNTOLD = "untold"
    """It answers, and does not say whether it has the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was seen of an endpoint."""

    readiness: Readiness
    seen: str


async def look(reference: str, *, api_key: str | None) -> Looked:
    """Looks at the endpoint of an `http` reference (agents.model.Agent.model). Raises nothing."""
    base, name = urldefrag(reference)
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        async with httpx.AsyncClient(timeout=SECONDS) as http:
            answer = await http.get(f"{base.rstrip('/')}/models", headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Looked(readiness=Readiness.NOT_READY, seen=f"nothing answers there ({type(error).__name__})")
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        return Looked(readiness=Readiness.NOT_READY, seen=f"it does not take the key (status {answer.status_code})")
    names = _names(answer)
    if names is None:
        return Looked(readiness=Readiness.UNTOLD, seen=f"it answers, and lists no models (status {answer.status_code})")
    if name in names or f"{name}:latest" in names:  # Ollama lists the tag that it takes as read
        return Looked(readiness=Readiness.READY, seen="it answers, and has the model")
    shown = ", ".join(names[:SHOWN]) or "none"
    return Looked(readiness=Readiness.UNTOLD, seen=f"it answers, and does not list this model, but: {shown}")


def _names(answer: httpx.Response) -> list[str] | None:
    try:
        names = [str(model["id"]) for model in answer.json()["data"]]
    except (ValueError, LookupError, TypeError):
        return None
    return names if answer.is_success else None
