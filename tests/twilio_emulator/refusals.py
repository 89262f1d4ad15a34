"""The REST errors of twilio.com/docs/api/errors that placing, changing and reading a call can bring."""

from http import HTTPStatus
from typing import Any

# code: HTTP status, message. `{}` is what was refused.
ERRORS: dict[int, tuple[int, str]] = {
    10004: (429, "Account has exceeded its limit of concurrent calls"),
    20001: (400, "Unknown or invalid parameter: {}"),
    20003: (401, "Authenticate"),
    20005: (403, "Account is not active"),
    20008: (403, "Resource not accessible with Test Account Credentials"),
    20009: (400, "Call {} is still active and cannot be deleted"),
    20404: (404, "The requested resource {} was not found"),
    20429: (429, "Too Many Requests"),
    20500: (500, "An internal server error has occurred"),
    20503: (503, "Service unavailable"),
    21201: (400, "No 'To' number is specified"),
    21205: (400, "Url is not a valid URL: {}"),
    21206: (400, "Invalid SendDigits parameter: {}"),
    21208: (400, "Invalid Timeout: {}"),
    21209: (400, "Invalid Method: {}"),
    21210: (
        400,
        "The source phone number provided, {}, is not yet verified for your account.",
    ),
    21211: (400, "The phone number you are attempting to call, {}, is not valid."),
    21212: (400, "The source phone number provided, {}, is not valid."),
    21213: (400, "No 'From' number is specified"),
    21214: (400, "The phone number you are attempting to call, {}, cannot be reached."),
    21215: (
        400,
        "Account not authorized to call {}. Perhaps you need to enable some international permissions.",
    ),
    21216: (400, "Account not allowed to call {}"),
    21217: (400, "Phone number {} does not appear to be valid."),
    21218: (400, "Invalid ApplicationSid: {}"),
    21219: (400, "The number {} is unverified. Trial accounts may only make calls to verified numbers."),
    21220: (400, "Call is not in-progress. Cannot redirect."),
    21234: (400, "Invalid MachineDetection tuning value: {}"),
    21609: (400, "The StatusCallback URL {} is not a valid URL."),
    32018: (400, "Twiml must not be longer than 4000 characters"),
}


class Refused(Exception):
    """Twilio refuses the request, with one of its codes. Nothing was done."""

    def __init__(self, code: int, what: str = "") -> None:
        self.code = code
        self.status, message = ERRORS.get(code, (HTTPStatus.BAD_REQUEST.value, f"Error {code}"))
        self.message = message.format(what)
        super().__init__(self.message)

    def body(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "more_info": f"https://www.twilio.com/docs/errors/{self.code}",
            "status": self.status,
        }
