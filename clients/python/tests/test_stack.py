"""Runs against the stack that TestClientPackages starts (e2e/client_packages_test.go)."""

from __future__ import annotations

import os
import time
import unittest
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from turnstone import Client, Event, Text, TurnstoneError

URL = os.environ["TURNSTONE_URL"]
CUT_URL = os.environ["TURNSTONE_CUT_URL"]
FLIGHTS = "fetch flights from NYC to LAX"
client = Client(URL)
cut = Client(CUT_URL, api_key="key-1")  # loses the answers of the first requests


def collect(stream: Iterator[Event], on: Callable[[Event], Any] = lambda _: None) -> list[Event]:
    """Reads a stream to its end and returns its events; on is told of each."""
    events = []
    for event in stream:
        events.append(event)
        on(event)
    return events


class TestStack(unittest.TestCase):
    def refused(self, call: Callable[[], Any], **members: Any) -> None:
        with self.assertRaises(TurnstoneError) as caught:
            call()
        for name, value in members.items():
            found = str(caught.exception) if name == "message" else getattr(caught.exception, name)
            self.assertEqual(found, value, f"{name} of {caught.exception.code}: {caught.exception}")

    def test_run(self) -> None:
        result = client.run({"message": "hello"})
        self.assertEqual(result["output"], "Three flights leave today.")
        self.assertEqual(client.turn(result["turn_id"])["state"], "completed")
        self.assertEqual(client.result(result["turn_id"])["output"], result["output"])
        state = client.run({"message": FLIGHTS})
        self.assertEqual((state["state"], state["pending"][0]["tool_name"]), ("waiting", "execute_pipeline"))
        client.cancel(state["turn_id"])

    def test_rerun_fork_and_rename(self) -> None:
        first = client.run({"message": "hello"})
        session = first["session_id"]
        again = cut.rerun(first["turn_id"], {"session_id": session + "-again"})
        self.assertEqual((again["rerun_of"], again["session_id"]), (first["turn_id"], session + "-again"))
        events = collect(client.follow(again["turn_id"]))
        self.assertEqual(events[-1]["result"]["output"], "Three flights leave today.")
        branch = client.fork(session, {"turn_id": first["turn_id"]})
        self.assertEqual((branch["forked_from"], branch["messages"]), (session, 2))
        self.assertEqual(len(client.messages(branch["session_id"])["messages"]), 2)
        self.assertEqual(client.rename_session(branch["session_id"], "Try again").get("title"), "Try again")
        self.refused(lambda: client.rename_session("none", "x"), code="not_found")
        self.refused(lambda: client.fork(session, {"turn_id": "none"}), code="not_found", field="turn_id")

    def test_decide(self) -> None:
        for decision, more in {
            "approve": lambda _: {},
            "edit": lambda args: {"args": args},
            "reject": lambda _: {"message": "too dear"},
            "respond": lambda _: {"message": "it is booked"},
        }.items():
            with self.subTest(decision):

                def decide(event: Event) -> None:
                    if event["type"] == "approval_requested":
                        a = event["approval"]
                        answer = {"approval_id": a["approval_id"], "decision": decision, "by": "ops", **more(a["args"])}
                        client.decide(a["turn_id"], answer)

                events = collect(client.stream({"message": FLIGHTS}), decide)
                self.assertEqual([e["approval"]["decision"] for e in events if e["type"] == "approval_resolved"], [decision])
                self.assertEqual(events[-1]["status"], "COMPLETED")

    def test_provide(self) -> None:
        def provide(event: Event) -> None:
            if event["type"] == "input_requested":
                call = event["approval"]
                self.assertEqual(call["args"], {"a": 2, "b": 3})
                cut.provide(call["turn_id"], {"tool_call_id": call["call_id"], "result": {"sum": 5}})

        tools = [{"name": "add", "parameters": {"type": "object", "properties": {}}}]
        events = collect(client.stream({"message": "add 2 and 3", "client_tools": tools}), provide)
        self.assertEqual(events[-1]["result"]["output"], "the sum is 5")

    def test_lost_connections(self) -> None:
        """A start runs once, a stream goes on, Retry-After is obeyed."""
        text, session = Text(), "python-lost"
        events = collect(cut.stream({"message": "break off", "session_id": session}), text.add)
        turn_id = events[0]["meta"]["turn_id"]
        self.assertEqual(events, collect(client.follow(turn_id)), "each event once")
        self.assertEqual([e["type"] for e in events].count("reset"), 1)
        self.assertEqual((str(text), events[-1]["result"]["output"]), ("all is well again", "all is well again"))
        page = client.messages(session, limit=1)
        self.assertEqual((page["more"], page["messages"][0]["role"]), (True, "user"))
        rest = client.messages(session, after=page["next"])
        self.assertEqual((rest["more"], [m["role"] for m in rest["messages"]]), (False, ["assistant"]))
        before = time.monotonic()
        self.assertEqual(cut.turn(turn_id)["state"], "completed")
        self.assertGreaterEqual(time.monotonic() - before, 1, "Retry-After")
        last = events[-1]["meta"]["event_index"]
        self.assertEqual(collect(client.follow(turn_id, last)), [])
        self.assertEqual(len(collect(client.follow(turn_id, last - 1))), 1)
        self.refused(lambda: Client(CUT_URL).turn(turn_id), code="unauthenticated", status=401, retryable=False)

    def test_errors(self) -> None:
        bad: Any = {"mesage": "x"}
        self.refused(lambda: client.run(bad), code="invalid", field="mesage", status=400, retryable=False)
        self.refused(lambda: client.turn("nobody"), code="not_found", status=404)
        self.refused(lambda: collect(client.follow("nobody")), code="not_found", status=404)
        self.refused(lambda: client.start({"message": "x", "agent": "nobody"}), code="not_found", field="agent")
        turn_id = client.run({"message": "hello"})["turn_id"]
        self.refused(lambda: client.cancel(turn_id), code="conflict", status=409)
        self.refused(lambda: Client(URL, tenant="acme").turn(turn_id), code="not_found")
        nobody = Client("http://127.0.0.1:1", retry_for=0.5)
        self.refused(lambda: nobody.turn(turn_id), code="unavailable", status=0, retryable=True)

    def test_cancel_and_timeout(self) -> None:
        request = {"message": "hold on", "idempotency_key": uuid.uuid4().hex}
        turn_id = client.start(request)["turn_id"]
        self.assertEqual(client.start(request)["turn_id"], turn_id)
        self.refused(lambda: collect(client.follow(turn_id, timeout=0.5)), code="unavailable", status=0)
        self.refused(lambda: client.run(request, timeout=0.5), code="unavailable", status=0)
        client.cancel(turn_id, {"reason": "enough"})
        self.assertEqual(collect(client.follow(turn_id))[-1]["status"], "CANCELLED")


if __name__ == "__main__":
    unittest.main()
