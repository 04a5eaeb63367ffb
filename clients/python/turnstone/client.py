"""The client."""

from __future__ import annotations

import http.client
import json
import random
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, cast

from .error import TurnstoneError, decode, refusal, unavailable
from .stream import EventParser
from .types import (
    AgentStepOutput,
    CancelRequest,
    Decision,
    EndedTurn,
    Event,
    ForkRequest,
    MessagePage,
    ProvidedResult,
    RerunRequest,
    SessionForked,
    SessionSummary,
    TurnRequest,
    TurnState,
)

_WAIT = 16 * 60.0  # the server answers a request that waits within 15 minutes


class Client:
    """Calls one server; safe for use by several threads.

    A request is made again when no answer came, and when the answer is "unavailable" or "rate_limited": nothing is run twice by it. The
    server joins a start with the same key, and accepts the same decision or result again; "conflict" may then say that the turn has ended
    since.

    api_key is an API key or a token. timeout is how long a call may take with its repetitions, in seconds; a stream has none unless the call
    gives one. A stream that is silent for idle_timeout is taken for dead; it is above the server's heartbeat of 15 s. A request that fails for
    a passing reason is made again for retry_for seconds; 0: never.
    """

    def __init__(
        self,
        server: str = "http://127.0.0.1:8080",
        *,
        api_key: str = "",
        tenant: str = "",
        timeout: float = 60,
        idle_timeout: float = 45,
        retry_for: float = 30,
    ) -> None:
        self._base = server.rstrip("/") + "/v1"
        self._headers: dict[str, str] = {}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        if tenant:
            self._headers["Turnstone-Tenant"] = tenant
        self._timeout, self._idle_timeout, self._retry_for = timeout, idle_timeout, retry_for
        self._opener = urllib.request.build_opener(_NoRedirect)

    def run(self, request: TurnRequest, *, timeout: float = _WAIT) -> AgentStepOutput | TurnState:
        """Starts a turn and waits for its result, or for the moment when it waits for a person (state is "waiting")."""
        return cast("AgentStepOutput | TurnState", self._call("POST", "/turns", _with_key(request), timeout))

    def start(self, request: TurnRequest, *, timeout: float | None = None) -> TurnState:
        """Starts a turn and does not wait for it."""
        return cast(TurnState, self._call("POST", "/turns?wait=false", _with_key(request), timeout))

    def stream(self, request: TurnRequest, *, timeout: float | None = None) -> Iterator[Event]:
        """Starts a turn and yields its events."""
        yield from self.follow(self.start(request, timeout=timeout)["turn_id"], timeout=timeout)

    def follow(self, turn_id: str, after: int = 0, *, timeout: float | None = None) -> Iterator[Event]:
        """Yields the events of a turn behind an index, each once and in order, until the terminal one.

        A connection that breaks is made again behind the last event. A "reset" voids what its producer said from "from_index" on: see Text.
        """
        retry = _Retry(self._retry_for, timeout)
        while True:
            try:
                for event in self._events(turn_id, after, retry):
                    index = event["meta"]["event_index"]
                    if index == 0 and "error" in event:
                        raise TurnstoneError(event["error"])  # of the stream: it is not in the turn's log
                    if index > after:
                        after = index
                        retry.reset()
                        yield event
                        if event["type"] == "status" and event.get("status") in ("COMPLETED", "FAILED", "CANCELLED"):
                            return
                return  # 204: nothing will ever come
            except (TurnstoneError, OSError, http.client.HTTPException) as error:
                retry.wait(error)

    def rerun(self, turn_id: str, request: RerunRequest | None = None, *, timeout: float | None = None) -> TurnState:
        """Runs a turn that has ended once more, in a branch of its session, and does not wait for the new turn."""
        return cast(TurnState, self._call("POST", f"/turns/{_quote(turn_id)}/rerun?wait=false", _with_key(request or {}), timeout))

    def fork(self, session_id: str, request: ForkRequest | None = None, *, timeout: float | None = None) -> SessionForked:
        """Makes a session that begins with a copy of another one's messages."""
        return cast(SessionForked, self._call("POST", f"/sessions/{_quote(session_id)}/fork", request or {}, timeout))

    def rename_session(self, session_id: str, title: str, *, timeout: float | None = None) -> SessionSummary:
        """Gives a session a title of one line and at most 200 characters; "" takes it away."""
        return cast(SessionSummary, self._call("PATCH", f"/sessions/{_quote(session_id)}", {"title": title}, timeout))

    def turn(self, turn_id: str, *, timeout: float | None = None) -> TurnState | EndedTurn:
        """Returns the state of a turn or, once it has ended, its result."""
        return cast("TurnState | EndedTurn", self._call("GET", f"/turns/{_quote(turn_id)}", None, timeout))

    def decide(self, turn_id: str, decision: Decision, *, timeout: float | None = None) -> None:
        """Answers an approval: approve, edit, reject or respond."""
        self._call("POST", f"/turns/{_quote(turn_id)}/decisions", decision, timeout)

    def provide(self, turn_id: str, result: ProvidedResult, *, timeout: float | None = None) -> None:
        """Hands in the result of a client-side tool."""
        self._call("POST", f"/turns/{_quote(turn_id)}/results", result, timeout)

    def cancel(self, turn_id: str, request: CancelRequest | None = None, *, timeout: float | None = None) -> None:
        """Stops a turn; it ends a moment later. One that has ended is a "conflict"."""
        self._call("POST", f"/turns/{_quote(turn_id)}/cancel", request or {}, timeout)

    def result(self, ref: str, *, timeout: float | None = None) -> Any:
        """Returns a stored result, by turn id, result id, job id or reference."""
        return self._call("GET", f"/results/{_quote(ref)}", None, timeout)

    def messages(self, session_id: str, after: int = 0, limit: int = 0, *, timeout: float | None = None) -> MessagePage:
        """Returns a page of a session's messages behind a position; "next" of one page is after of the next."""
        path = f"/sessions/{_quote(session_id)}/messages?after={after}&limit={limit}"
        return cast(MessagePage, self._call("GET", path, None, timeout))

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float | None) -> Any:
        retry = _Retry(self._retry_for, self._timeout if timeout is None else timeout)
        while True:
            try:
                with self._open(method, path, retry.time_left(_WAIT), body) as response:
                    return decode(response.read())
            except (TurnstoneError, OSError, http.client.HTTPException) as error:
                retry.wait(error)

    def _open(
        self, method: str, path: str, timeout: float, body: Mapping[str, Any] | None = None, more: dict[str, str] | None = None
    ) -> http.client.HTTPResponse:
        """Sends a request and returns the response of a success."""
        request = urllib.request.Request(self._base + path, method=method, headers={**self._headers, **(more or {})})
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            return cast(http.client.HTTPResponse, self._opener.open(request, timeout=timeout))
        except urllib.error.HTTPError as response:
            with response:
                raise refusal(response) from None

    def _events(self, turn_id: str, after: int, retry: _Retry) -> Iterator[Event]:
        """Yields the events of one connection. It returns only when nothing will ever come; a stream that just stops is an error."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        with self._open("GET", f"/turns/{_quote(turn_id)}/events", retry.time_left(self._idle_timeout), None, headers) as response:
            if response.status == 204:
                return
            began, parser = time.monotonic(), EventParser()
            while chunk := response.read1(1 << 16):
                retry.time_left(0)
                if time.monotonic() - began > self._idle_timeout / 4:
                    retry.reset()  # it beats, though nothing happens
                for data in parser.push(chunk):
                    yield cast(Event, decode(data))
        raise unavailable("the stream stopped")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: another server may not get the credential."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


class _Retry:
    """Decides when a request is made again: never, unless the failure passes by itself, and for so long without progress."""

    def __init__(self, seconds: float, timeout: float | None) -> None:
        self._seconds, self._attempts, self._until = seconds, 0, 0.0
        self._deadline = None if timeout is None else time.monotonic() + timeout

    def reset(self) -> None:
        self._attempts = 0

    def time_left(self, most: float) -> float:
        """Returns the seconds until the deadline, at most so many; it raises when there are none."""
        if self._deadline is None:
            return most
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise unavailable("the call did not end in time")
        return min(left, most)

    def wait(self, cause: Exception) -> None:
        """Waits until the next attempt, or raises the error if there is none."""
        error = cause if isinstance(cause, TurnstoneError) else unavailable(f"no answer: {cause or type(cause).__name__}")
        now = time.monotonic()
        if self._attempts == 0:
            self._until = now + self._seconds
        pause = max(min(0.2 * 2**self._attempts, 5) * random.uniform(0.5, 1), error.retry_after)
        self._attempts += 1
        last = self._until if self._deadline is None else min(self._until, self._deadline)
        if not error.is_passing or now + pause > last:
            if error is cause:
                raise error
            raise error from cause
        time.sleep(pause)


def _with_key(request: TurnRequest | RerunRequest) -> Mapping[str, Any]:
    """Returns the request with a key, so that the server joins the turn when the request comes again."""
    if request.get("turn_id") or request.get("idempotency_key"):
        return request
    return {**request, "idempotency_key": uuid.uuid4().hex}


def _quote(name: str) -> str:
    return urllib.parse.quote(name, safe="")
