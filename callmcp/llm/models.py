"""The language models that there are, by the names that voice agents give them."""

import asyncio
from collections.abc import Awaitable, Callable

from callmcp.agents.model import SCRIPTED
from callmcp.conversation.ports import LanguageModel
from callmcp.errors import BadConfiguration
from callmcp.llm.scripted import ScriptedModel

NOT_INSTALLED = "language models need more packages: pip install 'callmcp[models]'"


class Models:
    """Implements conversation.ports.Models and agents.ports.ModelNames. `api_key` goes to endpoints that are named by
    their URL, and nowhere else; providers read the variables that their own documentation names."""

    def __init__(self, *, api_key: str | None = None) -> None:
        self._api_key = api_key
        self._opened: dict[str, LanguageModel] = {SCRIPTED: ScriptedModel()}
        self._opening = asyncio.Lock()
        self._closing: list[Callable[[], Awaitable[None]]] = []

    async def named(self, reference: str) -> LanguageModel:
        if reference not in self._opened:
            async with self._opening:
                if reference not in self._opened:
                    # In a thread: it imports for seconds, and other talks go on meanwhile.
                    self._opened[reference] = await asyncio.to_thread(self._open, reference)
        return self._opened[reference]

    def _open(self, reference: str) -> LanguageModel:
        try:
            from callmcp.llm.hosted import open_model  # noqa: PLC0415 - only who names such a model waits for it
        except ImportError as error:
            raise BadConfiguration(f"{reference}: {NOT_INSTALLED}") from error
        model = open_model(reference, api_key=self._api_key)
        self._closing.append(model.close)
        return model

    async def close(self) -> None:
        """Lets go of what was opened."""
        for close in self._closing:
            await close()

    def why_not(self, reference: str) -> str | None:
        if reference == SCRIPTED:
            return None
        try:
            from callmcp.llm.hosted import why_not  # noqa: PLC0415
        except ImportError:
            return NOT_INSTALLED
        return why_not(reference)
