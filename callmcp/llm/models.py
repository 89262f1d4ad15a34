"""The language models that there are, by the names that voice agents give them."""

from callmcp.agents.model import SCRIPTED
from callmcp.conversation.ports import LanguageModel
from callmcp.errors import BadConfiguration
from callmcp.llm.scripted import ScriptedModel


class Models:
    """Implements conversation.ports.Models and agents.ports.ModelNames."""

    def __init__(self) -> None:
        self._scripted = ScriptedModel()

    def named(self, reference: str) -> LanguageModel:
        if (why := self.why_not(reference)) is not None:
            raise BadConfiguration(why)
        return self._scripted

    def why_not(self, reference: str) -> str | None:
        return None if reference == SCRIPTED else f"there is no language model {reference!r} here"
