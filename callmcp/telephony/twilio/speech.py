"""One line of the agent, and how much of it Twilio says was heard. Pure.

Twilio reports what it played by the clause (`tokensPlayed`), and at an interruption what was heard
(`utteranceUntilInterrupt`). Both are matched with our text by their letters and digits alone: spaces, punctuation and
case do not survive every voice, and some characters are sent as words (relay.SPOKEN).
"""

from collections.abc import Iterator

from callmcp.telephony.twilio.relay import SPOKEN


class Speech:
    """`text` is what we said, as we said it; `complete` when its last piece has been said."""

    def __init__(self) -> None:
        self.text = ""
        self.complete = False
        self._letters = ""
        self._ends: list[int] = []  # of each letter, where in `text` it ends
        self._played = 0  # letters
        self._heard_to = 0  # in `text`
        self._report = ""  # the letters of the last tokensPlayed

    def add(self, text: str, *, last: bool) -> None:
        for letter, at in _spell(text):
            self._letters += letter
            self._ends.append(len(self.text) + at + 1)
        self.text += text
        self.complete = last

    @property
    def heard(self) -> str:
        return (self.text if self.all_heard else self.text[: self._heard_to]).strip()

    @property
    def all_heard(self) -> bool:
        return self.complete and self._played == len(self._letters)

    @property
    def rest(self) -> int:
        """How many characters have not been heard yet."""
        return len(self.text) - self._heard_to

    def played(self, report: str) -> None:
        """Takes a tokensPlayed. One that does not go on where the last ended is of something else."""
        letters = _letters(report)
        if letters and self._letters.startswith(letters, self._played):
            self._report = letters
            self._advance(self._played + len(letters), report)

    def cut(self, report: str) -> None:
        """Takes an utteranceUntilInterrupt.

        The documentation counts it from the beginning of the line; in recordings it is the part that was heard of
        the last clause, which tokensPlayed may have told already. Where two of these fit, less was heard.
        """
        letters = _letters(report)
        if not letters or letters == self._report:
            return
        for begin in (0, self._played):
            end = begin + len(letters)
            if end > self._played and self._letters.startswith(letters, begin):
                self._advance(end, report)
                return

    def _advance(self, played: int, report: str) -> None:
        self._played = played
        self._heard_to = self._ends[played - 1]
        for mark in _closing_marks(report):  # the full stop was heard, if it was reported
            if self.text.startswith(mark, self._heard_to):
                self._heard_to += 1


def _spell(text: str) -> Iterator[tuple[str, int]]:
    """The letters and digits that are spoken, and where in the text each stands."""
    for at, character in enumerate(text):
        for letter in SPOKEN.get(character, character).casefold():
            if letter.isalnum():
                yield letter, at


def _letters(text: str) -> str:
    return "".join(letter for letter, _ in _spell(text))


def _closing_marks(text: str) -> str:
    text = text.rstrip()
    marks = len(text)
    while marks and not text[marks - 1].isalnum():
        marks -= 1
    return text[marks:]
