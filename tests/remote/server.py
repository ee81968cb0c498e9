"""moto's server, with a look and a write in one step, as S3 has them; its Python has no harness."""

import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

moto = DomainDispatcherApplication(create_backend_app)
alone = threading.Lock()
CONDITIONS = ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH")


def answer(environment: dict[str, Any], start: Any) -> Iterable[bytes]:
    """The answer to a request. moto looks at a condition first and writes then, unlocked."""
    if environment["REQUEST_METHOD"] == "PUT" and any(map(environment.get, CONDITIONS)):
        with alone:
            return list(moto(environment, start))
    return moto(environment, start)  # type: ignore[no-any-return]


run_simple("127.0.0.1", int(sys.argv[1]), answer, threaded=True)
