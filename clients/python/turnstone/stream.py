"""What a stream of events is made of: the parser of its text, and the text that its events show."""

from __future__ import annotations

import codecs
import re

from .types import Event

# A carriage return at the end waits: a line feed may follow, and the two are one line break.
_LINE_BREAK = re.compile(r"\r\n|\n|\r(?!\Z)")


class EventParser:
    """Turns the bytes of a stream of server-sent events, as they come, into the data of its events."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._data: list[str] = []

    def push(self, chunk: bytes) -> list[str]:
        """Takes the next bytes and returns the data of each event that they complete. Comments, names and ids are left out."""
        *lines, self._rest = _LINE_BREAK.split(self._rest + self._decoder.decode(chunk))
        complete = []
        for line in lines:
            if line == "" and self._data:
                complete.append("\n".join(self._data))
                self._data = []
            elif line == "data" or line.startswith("data:"):
                self._data.append(line[5:].removeprefix(" "))
        return complete


class Text:
    """Folds the events of a turn into the text to show so far, which is str() of it."""

    def __init__(self) -> None:
        self._tokens: list[Event] = []

    def add(self, event: Event) -> Text:
        """Takes the next event: a token adds its text, a reset drops what its producer wrote from an index on."""
        if event["type"] == "token":
            self._tokens.append(event)
        elif event["type"] == "reset":
            producer, start = event.get("producer", ""), event.get("from_index", 0)
            self._tokens = [
                t for t in self._tokens if t["meta"].get("producer", "") != producer or t["meta"]["event_index"] < start
            ]
        return self

    def __str__(self) -> str:
        return "".join(t.get("text", "") for t in self._tokens)
