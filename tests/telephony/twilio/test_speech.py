"""How much of the agent's line was heard: what Twilio reports, in whichever of its ways, is found in our own text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.telephony.twilio import relay
from callmcp.telephony.twilio.speech import Speech

LINE = "Hello, this is Ada. I am calling about your order. Is it a good time?"
WORDS = st.lists(
    st.sampled_from(["no", "no.", "Yes,", "I", "am", "AT&T", "größe", "a<b", "你好", "…", "नमस्ते।"]), min_size=1
)


def speech(*pieces: str, complete: bool = True) -> Speech:
    line = Speech()
    for piece in pieces:
        line.add(piece, last=False)
    if complete:
        line.add("", last=True)
    return line


def test_nothing_is_heard_before_it_is_reported() -> None:
    line = speech(LINE)

    assert (line.heard, line.all_heard, line.rest) == ("", False, len(LINE))


def test_what_was_played_was_heard() -> None:
    line = speech("Hello, this is", " Ada. I am", " calling.")
    line.played("Hello, this is Ada.")

    assert (line.heard, line.all_heard, line.rest) == ("Hello, this is Ada.", False, len(" I am calling."))

    line.played(" I am calling.")

    assert (line.heard, line.all_heard, line.rest) == ("Hello, this is Ada. I am calling.", True, 0)


def test_a_line_is_not_heard_to_its_end_before_it_has_one() -> None:
    line = speech("Hello", complete=False)
    line.played("Hello")

    assert (line.heard, line.all_heard) == ("Hello", False)

    line.add("", last=True)

    assert line.all_heard


def test_a_line_of_no_words_is_heard_at_once() -> None:
    assert speech(" … ").all_heard


@pytest.mark.parametrize(
    ("played", "cut", "heard"),
    [
        # As documented: since the line began.
        ([], "Hello, this", "Hello, this"),
        (["Hello, this is Ada."], "Hello, this is Ada. I am", "Hello, this is Ada. I am"),
        (["Hello, this is Ada."], "Hello, this is Ada.", "Hello, this is Ada."),
        # As recorded: of the last clause alone.
        (["Hello, this is Ada."], "I am calling", "Hello, this is Ada. I am calling"),
        # The same, when that clause was reported already.
        (["Hello, this is Ada.", " I am calling"], "I am calling", "Hello, this is Ada. I am calling"),
        # In the middle of a word, in another spelling, and with nothing.
        ([], "Hello, th", "Hello, th"),
        ([], "hello this is ada", "Hello, this is Ada"),
        (["Hello, this is Ada."], "", "Hello, this is Ada."),
        # What is not of this line is of no other use.
        (["Hello, this is Ada."], "Something else", "Hello, this is Ada."),
        (["Something else"], "Hello", "Hello"),
        (["1w2", "..."], "", ""),
    ],
)
def test_an_interruption_cuts_the_line_where_the_callee_cut_it(played: list[str], cut: str, heard: str) -> None:
    line = speech(LINE)
    for report in played:
        line.played(report)
    line.cut(cut)

    assert line.heard == heard


def test_a_line_that_repeats_itself_is_not_heard_twice() -> None:
    line = speech("No. No. No.")
    line.played("No.")
    line.cut("No.")

    assert line.heard == "No."


@pytest.mark.parametrize("cut", ["Fish and", "Fish  and ", "Fish & ", "Fish &"])
def test_what_was_said_in_other_words_is_found_in_our_own(cut: str) -> None:
    line = speech("Fish & Chips")
    line.cut(cut)

    assert line.heard == "Fish &"


@given(WORDS, st.data())
def test_heard_is_what_was_reported_and_a_beginning_of_what_was_said(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    line = speech(text)
    at = 0
    for clause in sorted(data.draw(st.sets(st.integers(1, len(text))))):
        line.played(relay.speakable(text[at:clause]))
        at = clause

    assert text.strip().startswith(line.heard)
    assert _letters(line.heard) == _letters(text[:at])


@given(WORDS, st.data())
def test_an_interruption_is_found_wherever_it_comes(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    line = speech(text)
    played = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(played, len(text)))
    line.played(relay.speakable(text[:played]))
    line.cut(relay.speakable(text[:cut]))

    assert text.strip().startswith(line.heard)
    assert _letters(line.heard) == _letters(text[:cut])


@given(st.text(), st.lists(st.text()), st.text())
def test_no_report_is_too_odd(text: str, played: list[str], cut: str) -> None:
    line = speech(text)
    for report in played:
        line.played(report)
    line.cut(cut)

    assert text.strip().startswith(line.heard)
    assert 0 <= line.rest <= len(text)


def _letters(text: str) -> str:
    return "".join(character for character in relay.speakable(text).casefold() if character.isalnum())
