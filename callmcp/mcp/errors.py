"""From domain errors to what a client is told. Three addressees: the model reads an error result, the client's own code
a JSON-RPC error, the transport an HTTP status with its challenge."""

from callmcp.errors import CallMcpError, Forbidden, InvalidArguments, Refused, Unauthenticated
from callmcp.mcp.revisions import Code, Revision
from callmcp.wire import rfc3339

META_KEY = "callmcp/error"


class ProtocolError(Exception):
    """A JSON-RPC error to send."""

    def __init__(self, code: Code, message: str, data: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Denied(Exception):
    """The transport must refuse this request: `cause` is Unauthenticated or Forbidden."""

    def __init__(self, cause: Unauthenticated | Forbidden) -> None:
        super().__init__(cause.message)
        self.cause = cause


def error_result(error: CallMcpError, revision: Revision) -> dict[str, object]:
    """The error as a tool's result, for the model to read and act on.

    Raises Denied for what the transport answers, ProtocolError for what this revision answers as a JSON-RPC error.
    """
    if isinstance(error, Unauthenticated | Forbidden):
        raise Denied(error)
    if isinstance(error, InvalidArguments) and not revision.argument_errors_are_results:
        raise ProtocolError(Code.INVALID_PARAMS, f"Invalid arguments: {error.message}", {"code": error.code})
    meta = {"code": error.code}
    if isinstance(error, Refused) and error.refusal_id is not None and error.rule is not None:
        meta |= {"refusal_id": error.refusal_id, "rule": error.rule}
    again = ""
    if isinstance(error, Refused) and error.retry_at is not None:
        meta["retry_at"] = rfc3339(error.retry_at)
        again = f" Ask again at {meta['retry_at']} or later."
    text = f"Error {error.code}: {error.message}{again}"
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": {META_KEY: meta}}
