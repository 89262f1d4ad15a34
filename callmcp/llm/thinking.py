"""What a model thinks before it speaks, when its server leaves that in the text: between <think> and </think>, as Qwen
and DeepSeek write it. It is not for the callee's ears."""

TAGS = ("<think>", "</think>")


class Aloud:
    """The words of one answer that are to be spoken. A tag may come in any pieces, so what could still become one is
    held back until the next piece tells."""

    def __init__(self) -> None:
        self._thinking = False
        self._held = ""

    def words(self, piece: str) -> str:
        """What can be spoken now that this piece has come."""
        text, self._held = self._held + piece, ""
        spoken = []
        while text:
            tag = TAGS[self._thinking]
            before, found, rest = text.partition(tag)
            if not found:
                kept = _begun(tag, text)
                before, self._held = text[: len(text) - kept], text[len(text) - kept :]
            if not self._thinking:
                spoken.append(before)
            if found:
                self._thinking = not self._thinking
            text = rest
        return "".join(spoken)

    def last(self) -> str:
        """What was held back, when nothing more comes."""
        return "" if self._thinking else self._held


def aloud(text: str) -> str:
    """The same of a whole text."""
    spoken = Aloud()
    return spoken.words(text) + spoken.last()


def _begun(tag: str, text: str) -> int:
    """How many characters at the end of the text may be the beginning of the tag."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if text.endswith(tag[:n])), 0)
