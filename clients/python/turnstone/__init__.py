"""A client of Turnstone's HTTP API (docs/reference/http.md)."""

from .client import Client as Client
from .error import TurnstoneError as TurnstoneError
from .stream import Text as Text
from .types import *  # noqa: F403
