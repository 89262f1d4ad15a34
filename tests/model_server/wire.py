"""Chat completions as OpenAI writes them: chunks of a stream, whole answers, errors."""

import itertools
import json
from typing import Any

from tests.model_server.answers import Answer

_ids = itertools.count(1)
ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
}


def error(status: int, message: str, param: str | None = None) -> dict[str, Any]:
    kind = ERRORS.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}


class Completion:
    """One answer: its id, and how it goes out."""

    def __init__(self, model: str) -> None:
        self._head = {"id": f"chatcmpl-{next(_ids)}", "created": 1_700_000_000, "model": model}

    def chunk(self, delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return event(self._head | {"object": "chat.completion.chunk", "choices": [choice]})

    def usage(self, answer: Answer) -> str:
        return event(self._head | {"object": "chat.completion.chunk", "choices": [], "usage": _usage(answer)})

    def calls(self, answer: Answer) -> list[str]:
        """Each tool call in pieces: its name, and then its arguments in two."""
        chunks = []
        for index, tool in enumerate(answer.tools):
            arguments = answer.arguments(index)
            half = len(arguments) // 2
            name = {"name": tool["name"], "arguments": ""}
            begin = {"index": index, "id": f"call_{next(_ids)}", "type": "function", "function": name}
            chunks.append(self.chunk({"tool_calls": [begin]}))
            chunks += [
                self.chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
                for piece in (arguments[:half], arguments[half:])
                if piece
            ]
        return chunks

    def whole(self, answer: Answer) -> dict[str, Any]:
        calls = [
            {
                "id": f"call_{next(_ids)}",
                "type": "function",
                "function": {"name": tool["name"], "arguments": answer.arguments(index)},
            }
            for index, tool in enumerate(answer.tools)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.say) or None, "refusal": None}
        if calls:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}
        return self._head | {"object": "chat.completion", "choices": [choice], "usage": _usage(answer)}


def _usage(answer: Answer) -> dict[str, int]:
    said = max(1, len("".join(answer.say)) // 4)
    return {"prompt_tokens": 100, "completion_tokens": said, "total_tokens": 100 + said}


def event(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body)}\n\n"
