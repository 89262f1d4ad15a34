"""How long a talk waits, how much it takes, and what the agent then says of its own accord."""

from dataclasses import dataclass

from callmcp.conversation.phrases import ENGLISH, Phrases


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """The limits of a talk, in seconds and counts, and the words the agent has of its own when no model speaks.

    `silence`: how long nothing may be heard. `speech`: how long the callee may speak without a word recognised.
    `thinking`: how long a model may keep everybody waiting, first for the filler and then for the next model.
    `farewell` and `character`: how long to wait until last words are heard, by their length. `hanging_up`: until the
    line says that it has closed.
    """

    silence: float = 6
    speech: float = 60
    thinking: float = 4
    farewell: float = 20
    character: float = 0.11
    hanging_up: float = 5
    answers: int = 100
    answer_characters: int = 4000
    phrases: Phrases = ENGLISH
