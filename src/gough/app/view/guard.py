"""Who may use the page of the viewer: browsers that opened its address, which holds a token.

Any page in a browser may open a websocket to this machine. The server
therefore answers only below a path with a random token, and only
websockets whose Origin is the server itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from unittest.mock import patch

TOKEN_BYTES = 16
Handler = Callable[[Any, Any], Any]
"""(connection, request) -> response of HTTP, or None to open the websocket."""


def new_token() -> str:
    """Return a random word for an address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def guarded(handler: Handler, token: str) -> Handler:
    """Return a handler that refuses requests without the token or from other pages.

    Args:
        handler: Serves the files of the page; it sees paths without the
            token.
        token: First part of all paths.
    """

    def check(connection: Any, request: Any) -> Any:
        first, _, inner = request.path.lstrip("/").partition("/")
        word = first.partition("?")[0]
        if not secrets.compare_digest(word.encode(), token.encode()):
            return connection.respond(
                HTTPStatus.FORBIDDEN, "open the address that `gough view` printed\n"
            )
        origin = request.headers.get("Origin")
        host = request.headers.get("Host", "")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return connection.respond(HTTPStatus.FORBIDDEN, "another page may not use the viewer\n")
        request.path = f"/{inner}"
        return handler(connection, request)

    return check


@contextmanager
def guarded_server(token: str) -> Iterator[None]:
    """Guard the websocket server that viser starts inside; viser has no option for it."""
    from websockets.asyncio import server

    serve = server.serve

    def guarded_serve(*words: Any, process_request: Handler, **options: Any) -> Any:
        return serve(*words, process_request=guarded(process_request, token), **options)

    with patch.object(server, "serve", guarded_serve):
        yield
