"""TwiML, carried out verb by verb on a call that was answered."""

from urllib.parse import urljoin

from tests.twilio_emulator.callee import SECONDS_A_CHARACTER
from tests.twilio_emulator.model import Call, Webhook
from tests.twilio_emulator.recordings import start
from tests.twilio_emulator.relay import Ended, Session
from tests.twilio_emulator.reports import fields
from tests.twilio_emulator.twiml import (
    Connect,
    Document,
    Hangup,
    Pause,
    Play,
    Redirect,
    Reject,
    Say,
    StartRecording,
    Verb,
    read,
)
from tests.twilio_emulator.webhooks import ask
from tests.twilio_emulator.world import World

AFTER_END = 0.5  # recorded: the action request comes 0.3 to 1 s after `end`
AFTER_HANGUP = 0.2
CLIP_SECONDS = 3.0
APPLICATION_ERROR = " We are sorry, an application error has occurred. Goodbye."


class Execution:
    def __init__(self, world: World, call: Call) -> None:
        self._world, self._call = world, call
        self._untold: tuple[Connect, Document, Ended] | None = None

    async def first(self) -> Document:
        """What the call does when it is answered: the inline TwiML, or what the Url says, or else the FallbackUrl."""
        order = self._call.order
        if order.url is None:
            return self.read(order.twiml or "", "")
        document = await self.fetch(order.url, "twiml")
        if document.broken and order.fallback is not None:
            document = await self.fetch(order.fallback, "twiml")
        return document

    async def fetch(self, webhook: Webhook, event: str, extra: tuple[tuple[str, str], ...] = ()) -> Document:
        """Asks for TwiML. When there is none to be had the document is broken."""
        call = self._call
        form = [*fields(call, call.status.value), *extra]
        if call.order.amd and not call.order.amd_async:
            form += [("AnsweredBy", call.answered_by or "unknown"), ("MachineDetectionDuration", "3000")]
        answer = await ask(self._world, call, webhook, form, event=event)
        if answer is None:
            return Document(webhook.url, broken=True)
        return self.read(answer.text, answer.url)

    def read(self, text: str, url: str) -> Document:
        document = read(text, url, loopback_ws=self._world.settings.loopback_ws)
        self._world.journal.note("twiml", self._call.sid, text=text, url=url)
        for code, words in document.alerts:
            self._world.journal.alert(code, words, self._call.sid)
        for words in document.odd:
            self._world.journal.violation(words, self._call.sid)
        return document

    async def run(self, document: Document) -> None:
        """Returns when there is nothing left to do, or the call is over."""
        call = self._call
        following: Document | None = document
        while following is not None and not call.over.is_set():
            document, following = following, None
            if document.broken:
                await self._speak(APPLICATION_ERROR)
                return
            for verb in document.verbs:
                following = await self._do(verb, document)
                if call.document is not None:
                    following, call.document = call.document, None
                    call.signal.clear()
                if following is not None or call.over.is_set():
                    break
            if call.over.is_set():
                call.signal.set()

    async def _do(self, verb: Verb, document: Document) -> Document | None:
        """Gives back what to go on with, if not with the next verb."""
        if not isinstance(verb, Connect | StartRecording | Redirect):
            self._call.line.connected()
        match verb:
            case Say(text=text):
                await self._speak(" " + text)
            case Pause(seconds=seconds):
                await self._world.pace.unless(self._call.signal, seconds)
            case Play(source=source):
                if await self._world.pace.unless(self._call.signal, CLIP_SECONDS):
                    self._call.line.agent_word(f" [{source}]", "carrier")
                    self._call.line.agent_ends()
            case Hangup() | Reject():
                self._call.hang_up("twiml")
            case Redirect(url=url, method=method):
                return await self.fetch(self._at(url, method, document), "twiml")
            case StartRecording():
                callback = self._at(verb.callback, "POST", document) if verb.callback else None
                how = {"channels": verb.channels, "track": verb.track}
                start(self._world, self._call, "StartCallRecordingTwiML", callback, frozenset(verb.events), **how)
            case Connect():
                return await self._connect(verb, document)
        return None

    async def _speak(self, text: str) -> None:
        line = self._call.line
        line.speaking = True
        spoken = ""
        for word in text.split():
            if not await self._world.pace.unless(self._call.signal, (len(word) + 1) * SECONDS_A_CHARACTER):
                break
            line.agent_word(" " + word, "carrier")
            spoken += " " + word
        line.speaking = False
        line.agent_ends(interrupted=spoken.split() != text.split())

    async def _connect(self, verb: Connect, document: Document) -> Document | None:
        call = self._call
        ended = await Session(self._world, call, verb.relay).run()
        if call.over.is_set():
            self._untold = (verb, document, ended)
            return None
        if ended.status == "completed":  # told to go on elsewhere: the action is asked all the same, its answer dropped
            await self._action(verb, document, ended)
            return None
        await self._world.pace.unless(call.over, AFTER_END)
        if call.over.is_set():
            self._untold = (verb, document, ended)
            return None
        answer = await self._action(verb, document, ended)
        if answer is None and ended.status == "failed":
            return Document("", broken=True)
        return answer

    async def _action(self, verb: Connect, document: Document, ended: Ended) -> Document | None:
        if verb.action is None:
            return None
        extra = [
            ("SessionId", ended.session),
            ("SessionStatus", ended.status),
            ("SessionDuration", str(ended.seconds)),
        ]
        if ended.handoff is not None:
            extra.append(("HandoffData", ended.handoff))
        if ended.error is not None:
            extra += [("ErrorCode", str(ended.error)), ("ErrorMessage", ended.message)]
        return await self.fetch(self._at(verb.action, verb.method, document), "action", tuple(extra))

    async def farewell(self) -> None:
        """The call is over while a session was on: its action hears of it, and what it answers is not carried out."""
        if self._untold is not None:
            await self._world.pace.sleep(AFTER_HANGUP)
            await self._action(*self._untold)

    def _at(self, url: str, method: str, document: Document) -> Webhook:
        return Webhook(url=urljoin(document.url.partition("#")[0], url), method=method)
