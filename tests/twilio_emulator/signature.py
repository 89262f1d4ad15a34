"""X-Twilio-Signature: what Twilio signs and how (twilio.com/docs/usage/security, "Validating requests")."""

import base64
import hashlib
import hmac
from collections.abc import Iterable


def signature(token: str, url: str, params: Iterable[tuple[str, str]] = (), *, algorithm: str = "sha1") -> str:
    """Base64 of the HMAC over the URL as requested, without its fragment, and each distinct name and value in order."""
    signed = url.partition("#")[0] + "".join(name + value for name, value in sorted(set(params)))
    return base64.b64encode(hmac.new(token.encode(), signed.encode(), algorithm).digest()).decode()


def body_sha256(body: bytes) -> str:
    """What the bodySHA256 query parameter carries when the body is not a form."""
    return hashlib.sha256(body).hexdigest()
