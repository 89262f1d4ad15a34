"""Thoughts are not spoken, however the text that has them was cut into pieces."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.llm.thinking import Aloud, aloud

TALK = st.text("<think>/ aé\n", max_size=12).filter(lambda text: "<think>" not in text and "</think>" not in text)


def spoken(pieces: Sequence[str]) -> str:
    mouth = Aloud()
    return "".join([*(mouth.words(piece) for piece in pieces), mouth.last()])


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("Hello.", "Hello."),
        ("<think>They want a table.</think>Hello.", "Hello."),
        ("<think>\n\n</think>\n\nHello.", "\n\nHello."),
        ("Hello <think>hm</think>there.<think>well</think>", "Hello there."),
        ("<think>It never came to an end. <", ""),
        ("It is < 3 and <thin", "It is < 3 and <thin"),
        ("<<think>a</think>>", "<>"),
        ("<think>a</thi</think>b", "b"),
        ("It ends </think> here.", "It ends </think> here."),
    ],
)
def test_what_stands_between_the_tags_is_not_spoken(text: str, heard: str) -> None:
    assert aloud(text) == heard


@given(parts=st.lists(st.tuples(TALK, TALK), max_size=3), cuts=st.lists(st.integers(0, 80)))
def test_the_same_is_spoken_however_the_text_is_cut(parts: Sequence[tuple[str, str]], cuts: Sequence[int]) -> None:
    text = "".join(f"{words}<think>{thought}</think>" for words, thought in parts)
    at = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})

    assert spoken([text[begin:end] for begin, end in itertools.pairwise(at)]) == aloud(text)


def test_words_are_not_held_back_for_the_words_after_them() -> None:
    mouth = Aloud()

    assert [mouth.words(piece) for piece in ("Hello", " there, <b", "y> the way <", "th", "is")] == [
        "Hello",
        " there, <b",
        "y> the way ",
        "",
        "<this",
    ]
