"""Turn taking: what the session wants done after each thing that happens. No loop, no clock, no line."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.calls.events import Detected, Disclosed, HungUp, OptedOut, TurnSpoken
from callmcp.calls.model import AnsweredBy, EndReason, Speaker, Turn
from callmcp.conversation.events import (
    Action,
    AnswerFailed,
    Answering,
    AnswerOver,
    AskModel,
    Claim,
    Digit,
    EndCall,
    EndTheCall,
    Event,
    Finish,
    Heard,
    Interrupted,
    LineClosed,
    LineLost,
    LineOpened,
    NoteAnswer,
    NoteOptOut,
    Piece,
    PressKeys,
    Recognised,
    Report,
    Say,
    SendDigits,
    SpeechBegan,
    Spoken,
    StopModel,
    TimeUp,
    Wait,
    WaitOver,
)
from callmcp.conversation.manners import Manners
from callmcp.conversation.phrases import ENGLISH
from callmcp.conversation.session import MODEL_FAILED, Phase, Session

START = datetime(2026, 1, 1, tzinfo=UTC)
OPENING = "Hello, this is Ada. I am an AI assistant."
MANNERS = Manners()


class Talk:
    """A session and what it wanted so far. Each event comes a second after the one before."""

    def __init__(
        self,
        manners: Manners = MANNERS,
        *,
        models: int = 1,
        voicemail: str | None = None,
        disclosure: str = "",
        turns: Sequence[Turn] = (),
    ) -> None:
        self.session = Session(
            opening=OPENING,
            disclosure=disclosure,
            voicemail=voicemail,
            models=models,
            turns=turns,
            manners=manners,
        )
        self.now = START
        self.wanted: list[Action] = []

    def receive(self, *events: Event | Piece | type[AnswerOver | AnswerFailed]) -> Sequence[Action]:
        """What the last of the events led to, waits and stops aside. A piece, and the bare name of an answer's end,
        belong to the present answer."""
        latest: Sequence[Action] = ()
        for what in events:
            event = self._event(what)
            self.now += timedelta(seconds=1)
            latest = self.session.receive(event, self.now)
            self.wanted += latest
        return [action for action in latest if not isinstance(action, Wait | StopModel)]

    def _event(self, what: Event | Piece | type[AnswerOver | AnswerFailed]) -> Event:
        if isinstance(what, type):
            return what(self.answer)
        return Answering(self.answer, what) if isinstance(what, Piece) else what

    @property
    def answer(self) -> int:
        return [action.answer for action in self.wanted if isinstance(action, AskModel)][-1]

    @property
    def wait(self) -> Wait:
        return [action for action in self.wanted if isinstance(action, Wait)][-1]

    def wait_over(self) -> Sequence[Action]:
        return self.receive(WaitOver(self.wait.wait))

    def says(self, *pieces: str) -> Sequence[Action]:
        """The model answers with these words and no more, and they are heard."""
        self.receive(*pieces, AnswerOver)
        return self.receive(Spoken())

    @property
    def turns(self) -> Sequence[tuple[str, str]]:
        return [(turn.speaker.value, turn.text) for turn in self.session.transcript]


@pytest.fixture
def talk() -> Talk:
    """A talk whose opening has been heard."""
    talk = Talk()
    talk.receive(LineOpened(), Spoken())
    return talk


def spoken(speaker: Speaker, text: str, *, second: int) -> Report:
    return Report(TurnSpoken(at=START + timedelta(seconds=second), speaker=speaker, text=text))


def test_the_opening_is_said_at_once_and_recorded_when_it_was_heard() -> None:
    talk = Talk()

    assert talk.receive(LineOpened()) == [Say(OPENING, last=True)]
    assert talk.receive(Spoken()) == [spoken(Speaker.AGENT, OPENING, second=1)]


def test_what_was_heard_is_answered_and_its_first_words_go_out_before_the_record(talk: Talk) -> None:
    assert talk.receive(Heard("Who is there?")) == [AskModel(talk.answer)]
    assert talk.receive("It is ") == [
        Say("It is ", last=False),
        spoken(Speaker.CALLEE, "Who is there?", second=3),
    ]
    assert talk.receive("Ada.") == [Say("Ada.", last=False)]
    assert talk.receive(AnswerOver) == [Say("", last=True)]
    assert talk.receive(Spoken()) == [spoken(Speaker.AGENT, "It is Ada.", second=4)]
    assert talk.session.phase is Phase.LISTENING


def test_an_utterance_is_dated_by_when_it_began(talk: Talk) -> None:
    talk.receive(SpeechBegan(), Heard("Hello?"))

    talk.says("Yes.")

    assert talk.session.transcript[1].at == START + timedelta(seconds=3)


def test_pieces_of_one_utterance_are_one_turn_and_one_question(talk: Talk) -> None:
    talk.receive(Heard("I would like"))
    first = talk.answer
    talk.receive(Heard("a table for two."))

    assert talk.turns[-1] == ("callee", "I would like a table for two.")
    assert talk.receive(Answering(first, "stale"), AnswerOver(first)) == []
    talk.says("Gladly.")
    assert talk.turns[1:] == [("callee", "I would like a table for two."), ("agent", "Gladly.")]


def test_words_without_content_are_nothing(talk: Talk) -> None:
    assert talk.receive(Heard("  ")) == []
    assert talk.session.phase is Phase.LISTENING


def test_an_interruption_stops_the_model_and_cuts_the_line_to_what_was_heard(talk: Talk) -> None:
    talk.receive(Heard("Tell me."), "It is a long story ")
    said = talk.receive(Interrupted("It is a"))

    assert said == [Say("", last=True), spoken(Speaker.AGENT, "It is a", second=4)]
    assert StopModel() in talk.wanted[-5:]
    assert talk.receive("that nobody hears") == []
    assert talk.receive(Heard("Stop there.")) == [AskModel(talk.answer)]
    assert talk.turns[-2:] == [("agent", "It is a"), ("callee", "Stop there.")]


def test_a_line_that_nobody_heard_is_not_recorded(talk: Talk) -> None:
    talk.receive(Heard("Tell me."), "Well", Interrupted(""))

    assert talk.turns == [("agent", OPENING), ("callee", "Tell me.")]


def test_an_interruption_of_nothing_is_nothing(talk: Talk) -> None:
    assert talk.receive(Interrupted("")) == []


def test_an_opening_that_was_cut_goes_before_the_next_line() -> None:
    talk = Talk()
    talk.receive(LineOpened(), Interrupted("Hello, this"), Heard("Who is it?"))

    assert talk.receive("I call about the car.")[0] == Say(f"{OPENING} I call about the car.", last=False)
    talk.receive(AnswerOver, Spoken(), Heard("Go on."))
    assert talk.receive("It is red.")[0] == Say("It is red.", last=False)


def test_what_is_said_over_the_agent_is_answered_when_the_line_is_over(talk: Talk) -> None:
    talk.receive(Heard("One."), "First ")
    assert talk.receive(Heard("Two.")) == [Say("", last=True)]
    assert talk.receive("stale") == []

    asked = talk.receive(Spoken())

    assert asked == [spoken(Speaker.AGENT, "First ".strip(), second=4), AskModel(talk.answer)]
    talk.says("Second.")
    assert [text for _, text in talk.turns[1:]] == ["One.", "First", "Two.", "Second."]


def test_what_is_said_over_the_opening_is_answered_after_it() -> None:
    talk = Talk()
    talk.receive(LineOpened(), Heard("Hello?"))

    assert talk.receive(Spoken())[-1] == AskModel(talk.answer)
    assert talk.turns == [("agent", OPENING), ("callee", "Hello?")]


def test_an_agent_that_wants_to_end_is_heard_out_and_hangs_up(talk: Talk) -> None:
    talk.receive(Heard("That is all."), "Goodbye.", EndTheCall())
    talk.receive(AnswerOver)

    assert talk.receive(Spoken())[-1] == EndCall(EndReason.AGENT_HUNG_UP)
    end = talk.receive(LineClosed())[-1]
    assert end == Finish(HungUp(at=talk.now, reason=EndReason.AGENT_HUNG_UP))


def test_an_agent_may_hang_up_without_a_word(talk: Talk) -> None:
    talk.receive(Heard("Get lost."), EndTheCall())

    assert talk.receive(AnswerOver) == [spoken(Speaker.CALLEE, "Get lost.", second=3), EndCall(EndReason.AGENT_HUNG_UP)]


def test_an_interrupted_goodbye_is_taken_back(talk: Talk) -> None:
    talk.receive(Heard("Thanks."), "Good", EndTheCall())
    talk.receive(AnswerOver, Interrupted("Good"))

    assert talk.receive(Heard("Wait!")) == [AskModel(talk.answer)]
    talk.says("Yes?")
    assert talk.session.phase is Phase.LISTENING


def test_what_is_said_over_a_goodbye_does_not_stop_it_and_is_kept(talk: Talk) -> None:
    talk.receive(Heard("Thanks."), "Goodbye.", EndTheCall())
    talk.receive(Heard("Bye"), AnswerOver)

    assert talk.receive(Spoken())[-1] == EndCall(EndReason.AGENT_HUNG_UP)
    talk.receive(LineClosed())
    assert [text for _, text in talk.turns[2:]] == ["Goodbye.", "Bye"]


def test_keys_are_pressed_when_the_words_before_them_were_heard(talk: Talk) -> None:
    talk.receive(Heard("Press 1."), "One.", PressKeys("1"))
    talk.receive(AnswerOver)

    assert talk.receive(Spoken())[1:] == [SendDigits("1"), spoken(Speaker.AGENT, "[pressed 1]", second=7)]


def test_keys_alone_are_pressed_at_once_and_whoever_comes_then_hears_the_opening(talk: Talk) -> None:
    talk.receive(Heard("Press 1."), PressKeys("1"))
    assert SendDigits("1") in talk.receive(AnswerOver)

    talk.receive(Heard("Reception?"))

    assert talk.receive("Good day.")[0] == Say(f"{OPENING} Good day.", last=False)


def test_keys_of_an_answer_that_was_given_up_are_not_pressed(talk: Talk) -> None:
    talk.receive(Heard("Press 1"), PressKeys("1"), Heard("or press 2."))
    talk.receive(PressKeys("2"))

    assert SendDigits("2") in talk.receive(AnswerOver)


def test_keys_of_an_answer_that_was_talked_over_are_not_pressed(talk: Talk) -> None:
    talk.receive(Heard("Press 1"), "One. ", PressKeys("1"), Heard("or press 2."))

    assert not any(isinstance(action, SendDigits) for action in talk.receive(Spoken()))


def test_a_key_that_the_callee_presses_is_something_it_said(talk: Talk) -> None:
    assert talk.receive(Digit("5")) == [AskModel(talk.answer)]
    assert talk.turns[-1] == ("callee", "[pressed 5]")


def test_an_opt_out_is_noted_at_once_and_the_model_is_not_asked(talk: Talk) -> None:
    said = talk.receive(Heard("Please never call me again."))

    assert said == [
        Report(OptedOut(at=talk.now)),
        Say(ENGLISH.opted_out, last=True),
        spoken(Speaker.CALLEE, "Please never call me again.", second=3),
    ]
    assert talk.receive(Interrupted("I am sorry"))[-1] == EndCall(EndReason.AGENT_HUNG_UP)
    assert talk.receive(LineClosed())[-1] == Finish(HungUp(at=talk.now, reason=EndReason.AGENT_HUNG_UP))


def test_an_opt_out_during_the_opening_is_honoured_after_it() -> None:
    talk = Talk()
    talk.receive(LineOpened(), Heard("Stop calling me"))

    assert Report(OptedOut(at=START + timedelta(seconds=3))) in talk.receive(Spoken())
    assert ("callee", "Stop calling me") in talk.turns


def test_an_opt_out_that_the_model_notes_ends_the_call_whatever_is_said_then(talk: Talk) -> None:
    talk.receive(Heard("Rufen Sie nie wieder an."))
    assert talk.receive(NoteOptOut()) == [Report(OptedOut(at=talk.now))]
    assert talk.receive(NoteOptOut()) == []
    assert talk.receive(Heard("Nie wieder.")) == []
    talk.receive("Goodbye.", EndTheCall())

    assert talk.receive(Interrupted("Good"))[-1] == EndCall(EndReason.AGENT_HUNG_UP)


def test_silence_is_asked_about_twice_and_then_the_agent_says_goodbye(talk: Talk) -> None:
    for question in ENGLISH.still_there:
        assert talk.wait.seconds == MANNERS.silence
        assert talk.wait_over() == [Say(question, last=True)]
        talk.receive(Spoken())
    assert talk.wait_over() == [Say(ENGLISH.nobody, last=True)]
    assert talk.receive(Spoken())[-1] == EndCall(EndReason.AGENT_HUNG_UP)


def test_a_word_makes_the_silences_start_again(talk: Talk) -> None:
    talk.wait_over()
    talk.receive(Spoken(), Heard("Sorry, I am here."))
    talk.says("Good.")

    assert talk.wait_over() == [Say(ENGLISH.still_there[0], last=True)]


def test_somebody_who_is_speaking_is_not_asked_whether_he_is_there(talk: Talk) -> None:
    waiting = talk.wait
    talk.receive(SpeechBegan())

    assert talk.receive(WaitOver(waiting.wait)) == []
    assert talk.wait.seconds == MANNERS.speech


def test_the_agent_does_not_wait_for_the_callee_while_it_speaks(talk: Talk) -> None:
    waiting = talk.wait
    talk.wait_over()

    assert talk.receive(WaitOver(waiting.wait), SpeechBegan()) == []


def test_a_slow_model_is_covered_by_a_filler_and_may_still_answer(talk: Talk) -> None:
    talk.receive(Heard("Well?"))
    assert talk.wait_over()[0] == Say(f"{ENGLISH.filler} ", last=False)
    assert talk.receive("Yes.")[0] == Say("Yes.", last=False)
    talk.receive(AnswerOver, Spoken())

    assert talk.turns[-1] == ("agent", f"{ENGLISH.filler} Yes.")


def test_a_model_that_is_too_slow_ends_the_call_with_words_and_an_error(talk: Talk) -> None:
    talk.receive(Heard("Well?"))
    talk.wait_over()

    assert talk.wait_over() == [Say(ENGLISH.failed, last=True)]
    talk.receive(Spoken())
    assert talk.receive(LineClosed())[-1] == Finish(
        HungUp(at=talk.now, reason=EndReason.AGENT_HUNG_UP, error=MODEL_FAILED)
    )


def test_a_model_that_fails_in_mid_sentence_ends_the_call_with_words_and_an_error(talk: Talk) -> None:
    talk.receive(Heard("Well?"), "I think", PressKeys("1"))

    assert talk.receive(AnswerFailed) == [Say(f" {ENGLISH.failed}", last=True)]
    assert talk.receive(AnswerFailed) == []
    assert SendDigits("1") not in talk.receive(Spoken())


def test_the_error_stays_when_the_callee_hangs_up_during_the_apology(talk: Talk) -> None:
    talk.receive(Heard("Well?"), AnswerFailed)

    end = talk.receive(LineClosed(reason=EndReason.CALLEE_HUNG_UP, heard="I am sorry"))[-1]

    assert end == Finish(HungUp(at=talk.now, reason=EndReason.CALLEE_HUNG_UP, error=MODEL_FAILED))


def test_the_next_model_is_asked_when_one_fails_and_is_asked_from_then_on() -> None:
    talk = Talk(models=2)
    talk.receive(LineOpened(), Spoken(), Heard("Well?"))

    assert talk.receive(AnswerFailed) == [AskModel(talk.answer, model=1)]
    talk.says("All is well.")
    assert talk.receive(Heard("And?")) == [AskModel(talk.answer, model=1)]
    assert talk.receive(AnswerFailed) == [Say(ENGLISH.failed, last=True), spoken(Speaker.CALLEE, "And?", second=8)]


def test_a_slow_model_is_covered_by_a_phrase_and_then_by_the_next_model() -> None:
    talk = Talk(models=2)
    talk.receive(LineOpened(), Spoken(), Heard("Well?"))

    assert talk.wait_over()[0] == Say(f"{ENGLISH.filler} ", last=False)
    assert talk.wait_over() == [AskModel(talk.answer, model=1)]
    assert talk.receive("Here I am.") == [Say("Here I am.", last=False)]
    assert talk.says() == [spoken(Speaker.AGENT, f"{ENGLISH.filler} Here I am.", second=4)]


def test_a_model_that_fails_in_mid_sentence_is_followed_by_one_that_knows_how_far_it_came() -> None:
    talk = Talk(models=2)
    talk.receive(LineOpened(), Spoken(), Heard("Well?"), "I think ")

    assert talk.receive(AnswerFailed) == [AskModel(talk.answer, model=1)]
    assert talk.turns[-2:] == [("callee", "Well?"), ("agent", "I think")]
    assert talk.says("so.") == [spoken(Speaker.AGENT, "I think so.", second=4)]


def test_a_model_that_fails_after_it_ended_the_call_has_ended_it() -> None:
    talk = Talk(models=2)
    talk.receive(LineOpened(), Spoken(), Heard("Bye."), "Goodbye.", EndTheCall())

    assert talk.receive(AnswerFailed) == [Say("", last=True)]
    assert talk.receive(Spoken())[-1] == EndCall(EndReason.AGENT_HUNG_UP)


def test_markup_of_a_model_is_not_said(talk: Talk) -> None:
    talk.receive(Heard("Well?"))

    assert talk.receive("**Friday** at `seven`")[0] == Say("Friday at seven", last=False)
    assert talk.receive("**") == []


def test_a_wish_not_to_be_called_that_only_the_model_understood_is_answered(talk: Talk) -> None:
    talk.receive(Heard("Rufen Sie mich nie wieder an."), NoteOptOut())

    assert talk.receive(AnswerOver)[0] == Say(ENGLISH.opted_out, last=True)


def test_an_answer_is_noted_with_the_turn_that_it_was_given_in(talk: Talk) -> None:
    talk.receive(Heard("On Friday."), NoteAnswer(Claim("day", "Friday")), "Thank you.")
    talk.receive(NoteAnswer(Claim("hour", 7, evidence=0)))

    assert talk.session.noted == {"day": Claim("day", "Friday", evidence=1), "hour": Claim("hour", 7, evidence=0)}


def said(*texts: str) -> Sequence[Turn]:
    """Turns so far, the agent first and then in turn."""
    return [
        Turn(index=index, at=START, speaker=(Speaker.AGENT, Speaker.CALLEE)[index % 2], text=text)
        for index, text in enumerate(texts)
    ]


def test_a_disclosure_is_reported_when_it_was_heard_to_its_end_and_once() -> None:
    disclosed = Report(Disclosed(at=START + timedelta(seconds=2)))
    talk = Talk(disclosure="Hello, this is Ada.")
    talk.receive(LineOpened())
    assert disclosed in talk.receive(Interrupted("Hello, this is Ada. I am"))
    talk.receive(Heard("Yes?"))
    talk.says("Right.")
    assert [action for action in talk.wanted if isinstance(action, Report) and isinstance(action.fact, Disclosed)] == [
        disclosed
    ]


@pytest.mark.parametrize("heard", ["", "Hello, this is"])
def test_a_disclosure_that_was_cut_short_was_not_spoken(heard: str) -> None:
    talk = Talk(disclosure="Hello, this is Ada.")
    talk.receive(LineOpened(), Interrupted(heard))

    assert not any(isinstance(action, Report) and isinstance(action.fact, Disclosed) for action in talk.wanted)


def test_a_talk_that_goes_on_greets_nobody_twice_and_answers_what_was_asked_last() -> None:
    talk = Talk(turns=said(OPENING, "Which day?"))

    assert talk.receive(LineOpened()) == [Say(ENGLISH.resumed, last=True)]
    assert talk.receive(Spoken())[-1] == AskModel(talk.answer)
    assert talk.turns == [("agent", OPENING), ("callee", "Which day?"), ("agent", ENGLISH.resumed)]
    assert [turn.index for turn in talk.session.transcript] == [0, 1, 2]


def test_a_talk_that_goes_on_after_the_agent_spoke_listens() -> None:
    talk = Talk(turns=said(OPENING, "Yes?", "It is about"))

    talk.receive(LineOpened(), Spoken())

    assert talk.session.phase is Phase.LISTENING


def test_a_talk_that_broke_in_the_opening_opens_again() -> None:
    talk = Talk(turns=said("Hello, this"))

    assert talk.receive(LineOpened()) == [Say(f"{OPENING} {ENGLISH.resumed}", last=True)]


def test_a_wish_not_to_be_called_that_was_said_last_is_heard_after_a_break() -> None:
    talk = Talk(turns=said(OPENING, "Never call me again."))
    talk.receive(LineOpened())

    reported = talk.receive(Spoken())

    assert Report(OptedOut(at=talk.now)) in reported
    assert Say(ENGLISH.opted_out, last=True) in reported


def test_an_answer_without_end_is_cut(talk: Talk) -> None:
    talk.receive(Heard("Tell me everything."))

    said = talk.receive("word " * 1000)

    assert said[-1] == Say("", last=True)
    assert talk.receive("more") == []


def test_a_piece_without_words_says_nothing(talk: Talk) -> None:
    talk.receive(Heard("Well?"))

    assert talk.receive("") == []


def test_a_talk_without_end_is_ended() -> None:
    talk = Talk(Manners(answers=2))
    talk.receive(LineOpened(), Spoken())
    for _ in range(2):
        talk.receive(Heard("And?"))
        talk.says("Nothing.")

    assert talk.receive(Heard("And?"))[0] == Say(ENGLISH.enough, last=True)
    assert talk.receive(Spoken())[-1] == EndCall(EndReason.AGENT_HUNG_UP)


def test_a_goodbye_whose_end_is_never_reported_ends_the_call_all_the_same(talk: Talk) -> None:
    talk.receive(Heard("Thanks."), "Goodbye.", EndTheCall())
    talk.receive(AnswerOver)

    assert talk.wait.seconds == MANNERS.farewell
    assert talk.wait_over() == [EndCall(EndReason.AGENT_HUNG_UP)]


def test_a_line_that_never_says_it_closed_is_taken_to_have_closed(talk: Talk) -> None:
    talk.receive(TimeUp())

    assert talk.wait.seconds == MANNERS.hanging_up
    assert talk.wait_over()[-1] == Finish(HungUp(at=talk.now, reason=EndReason.MAX_DURATION))


def test_a_wait_that_was_given_up_is_nothing(talk: Talk) -> None:
    stale = talk.wait
    talk.receive(Heard("Yes?"))

    assert talk.receive(WaitOver(stale.wait)) == []


@pytest.mark.parametrize("answered_by", [AnsweredBy.MACHINE, AnsweredBy.FAX])
def test_a_machine_is_hung_up_on(talk: Talk, answered_by: AnsweredBy) -> None:
    assert talk.receive(Recognised(answered_by)) == [
        Report(Detected(at=talk.now, answered_by=answered_by)),
        EndCall(EndReason.MACHINE),
    ]
    assert talk.receive(LineClosed())[-1] == Finish(HungUp(at=talk.now, reason=EndReason.MACHINE))


@pytest.mark.parametrize("answered_by", [AnsweredBy.HUMAN, AnsweredBy.UNKNOWN, AnsweredBy.IVR])
def test_anything_else_is_talked_to(talk: Talk, answered_by: AnsweredBy) -> None:
    assert talk.receive(Recognised(answered_by)) == [Report(Detected(at=talk.now, answered_by=answered_by))]


def test_a_machine_found_while_hanging_up_does_not_change_why(talk: Talk) -> None:
    talk.receive(TimeUp(), Recognised(AnsweredBy.MACHINE), TimeUp())

    assert talk.wanted.count(EndCall(EndReason.MAX_DURATION)) == 1
    assert talk.receive(LineClosed())[-1] == Finish(HungUp(at=talk.now, reason=EndReason.MAX_DURATION))


@pytest.mark.parametrize("reason", [None, EndReason.CALLEE_HUNG_UP, EndReason.ENDED_BY_CALLER])
def test_a_line_that_closes_says_why_as_far_as_it_knows(talk: Talk, reason: EndReason | None) -> None:
    talk.receive(Heard("Go on."), "It is")

    end = talk.receive(LineClosed(reason=reason, heard="It"))

    told = reason or EndReason.CALLEE_HUNG_UP
    assert end == [spoken(Speaker.AGENT, "It", second=4), Finish(HungUp(at=talk.now, reason=told))]
    assert talk.receive(LineClosed(), TimeUp(), Heard("Hello?")) == []


def test_a_line_that_breaks_leaves_the_end_to_the_carrier_and_keeps_what_was_heard(talk: Talk) -> None:
    talk.receive(Heard("Go on."), "It is about")

    assert talk.receive(LineLost(heard="It is")) == [spoken(Speaker.AGENT, "It is", second=4), Finish(None)]


def test_a_line_that_breaks_while_hanging_up_is_none(talk: Talk) -> None:
    talk.receive(TimeUp())

    assert talk.receive(LineLost())[-1] == Finish(HungUp(at=talk.now, reason=EndReason.MAX_DURATION))


def test_a_line_opens_once(talk: Talk) -> None:
    assert talk.receive(LineOpened()) == []


def test_a_line_that_closes_before_it_opened_ends_the_talk() -> None:
    talk = Talk()

    end = talk.receive(LineClosed(reason=EndReason.ENDED_BY_CALLER))

    assert end == [Finish(HungUp(at=talk.now, reason=EndReason.ENDED_BY_CALLER))]


# Whatever happens in whatever order.

texts = st.sampled_from(["", "Hello", "Never call me again", "press 1"])
numbers = st.integers(0, 12)
pieces = st.one_of(
    texts,
    st.just(EndTheCall()),
    st.just(NoteOptOut()),
    st.just(PressKeys("1")),
    st.just(NoteAnswer(Claim("day", "Friday"))),
)
talks = st.builds(
    Talk,
    st.just(Manners(answers=3)),
    models=st.integers(1, 3),
    voicemail=st.sampled_from([None, "Please call us back."]),
)
happenings: st.SearchStrategy[Event] = st.one_of(
    st.just(LineOpened()),
    st.just(SpeechBegan()),
    texts.map(Heard),
    texts.map(Interrupted),
    st.just(Spoken()),
    st.just(Digit("1")),
    st.sampled_from(AnsweredBy).map(Recognised),
    st.builds(Answering, numbers, pieces),
    numbers.map(AnswerOver),
    numbers.map(AnswerFailed),
    st.integers(0, 25).map(WaitOver),
    st.sampled_from([LineClosed(), LineLost(), TimeUp()]),
)


@given(talks, st.lists(happenings, max_size=40))
def test_a_talk_ends_once_and_its_record_is_its_transcript(talk: Talk, events: list[Event]) -> None:
    talk.receive(*events, TimeUp())
    if talk.session.phase is not Phase.OVER:
        talk.wait_over()

    assert talk.session.phase is Phase.OVER
    assert sum(isinstance(action, Finish) for action in talk.wanted) == 1
    assert sum(isinstance(action, EndCall) for action in talk.wanted) <= 1
    facts = [action.fact for action in talk.wanted if isinstance(action, Report)]
    recorded = [(fact.speaker.value, fact.text) for fact in facts if isinstance(fact, TurnSpoken)]
    assert recorded == talk.turns
    assert [turn.index for turn in talk.session.transcript] == list(range(len(recorded)))
    assert sum(isinstance(fact, OptedOut) for fact in facts) <= 1


@given(talks, st.lists(happenings, max_size=40))
def test_after_it_has_hung_up_the_agent_says_nothing(talk: Talk, events: list[Event]) -> None:
    talk.receive(*events)
    ends = [index for index, action in enumerate(talk.wanted) if isinstance(action, EndCall)]
    if ends:
        rest = talk.wanted[ends[0] :]
        assert not any(isinstance(action, Say | SendDigits | AskModel) for action in rest)


@given(talks, st.lists(happenings, max_size=40))
def test_every_answer_and_wait_has_a_number_of_its_own(talk: Talk, events: list[Event]) -> None:
    talk.receive(LineOpened(), *events)
    for kind in (
        [action.answer for action in talk.wanted if isinstance(action, AskModel)],
        [action.wait for action in talk.wanted if isinstance(action, Wait)],
    ):
        assert kind == sorted(set(kind))
