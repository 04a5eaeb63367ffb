"""The exception of every call."""

from __future__ import annotations

import json
import urllib.error
from typing import Any, cast

from .types import Failure


class TurnstoneError(Exception):
    """What every call raises.

    code is the server's error type (docs/reference/http.md, "Errors"), or "unavailable" when no answer came; field is the path of what is wrong in the
    request; status is the HTTP status, 0 if no answer came; retryable says whether the same request may succeed later; retry_after is how long
    the server asks to wait, in seconds.
    """

    def __init__(self, failure: Failure, status: int = 0, retry_after: float = 0) -> None:
        super().__init__(failure["message"])
        self.code = failure["type"]
        self.field = failure.get("field")
        self.retryable = failure["retryable"]
        self.status = status
        self.retry_after = retry_after

    @property
    def is_passing(self) -> bool:
        """Whether the failure passes by itself."""
        return self.retryable and self.code in ("unavailable", "rate_limited")


def unavailable(message: str) -> TurnstoneError:
    """Returns the error of a request that got no answer, or only a part of one."""
    return TurnstoneError({"type": "unavailable", "message": message, "retryable": True})


def decode(text: str | bytes) -> Any:
    """Returns the JSON of an answer."""
    try:
        return json.loads(text)
    except ValueError as error:
        message = "the answer is no JSON: is it a Turnstone server?"
        raise TurnstoneError({"type": "internal", "message": message, "retryable": False}) from error


# The codes of refusals that have no error body, such as a proxy's.
_CODES = {
    401: "unauthenticated", 403: "denied", 404: "not_found", 409: "conflict", 410: "gap", 413: "overflow", 429: "rate_limited",
    502: "unavailable", 503: "unavailable", 504: "unavailable",
}  # fmt: skip


def refusal(response: urllib.error.HTTPError) -> TurnstoneError:
    """Returns the error that a response holds."""
    after = response.headers.get("Retry-After", "")
    retry_after = float(after) if after.isdigit() else 0.0
    text = response.read()
    try:
        failure = cast(Failure, json.loads(text)["error"])
        return TurnstoneError(failure, response.code, retry_after)
    except (ValueError, TypeError, KeyError):
        code = _CODES.get(response.code, "internal" if response.code >= 500 else "invalid")
        message = f"the server answered {response.code} {response.reason}"
        retryable = code in ("unavailable", "rate_limited")
        return TurnstoneError({"type": code, "message": message, "retryable": retryable}, response.code, retry_after)
