import unittest

from turnstone.stream import EventParser

STREAM = (
    ': a comment\r\nretry: 1000\r\n\r\nid: 1\r\nevent: token\r\ndata: {"text":"żółć 🦉\u2028"}\r\n\r\n'
    "data: two\ndata:  lines\n\n:\n\ndata:carriage returns\r\rdata\nnot data: x\n\ndata: unfinished\n"
)


class TestEventParser(unittest.TestCase):
    def test_events_are_the_same_however_the_stream_is_cut(self) -> None:
        stream = STREAM.encode()
        for size in range(1, len(stream) + 1):
            parser = EventParser()
            events = [event for at in range(0, len(stream), size) for event in parser.push(stream[at : at + size])]
            self.assertEqual(events, ['{"text":"żółć 🦉\u2028"}', "two\n lines", "carriage returns", ""], f"pieces of {size} bytes")
