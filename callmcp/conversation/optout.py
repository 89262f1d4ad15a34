"""Does the callee ask never to be called again? Decided by rule, so that no model can overlook or be talked out of it.

English only; what is said in other words or languages is the model's to note.
"""

import re

_LATER = r"(?! (?:before|until|till|after|on|at|every|during|in|this|today|tonight|tomorrow)\b)"
_ME = r"(?:me|us|my (?:name|number|house|phone)|this (?:number|phone)|here)"
_CALL = r"(?:call|phone|ring|contact)"
_PHRASES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:do not|don't|never|not to) (?:ever )?{_CALL}(?: {_ME})? (?:again|any ?more|ever)\b{_LATER}",
        rf"\bnever {_CALL} {_ME}\b{_LATER}",
        rf"\b(?:stop|quit) (?:calling|phoning|ringing|contacting)(?: {_ME})?(?= ?(?:[.,;!?]|$|please\b|now\b|again\b))",
        rf"\b(?:take|get|remove|delete) {_ME} (?:off|from) (?:of )?\w+(?: \w+)? (?:lists?|database|records|system)\b",
        rf"\b(?:put|add) {_ME} (?:on|to) (?:your|the) do[ -]not[ -]call\b",
    )
)


def asks_not_to_be_called(text: str) -> bool:
    plain = " ".join(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
    return any(phrase.search(plain) for phrase in _PHRASES)
