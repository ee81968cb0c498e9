"""A stand-in of the Hub's API on loopback: it takes what its client uploads."""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

TOKEN = "hf_of-a-test"


class StandIn:
    """What a client has created and uploaded."""

    def __init__(self) -> None:
        self.repositories: dict[str, bool] = {}
        """Name -> whether it is private"""
        self.files: dict[str, bytes] = {}
        """Path in the repository -> content"""
        self.messages: list[str] = []
        self.address = ""


@contextmanager
def stand_in() -> Iterator[StandIn]:
    """Serve until the block ends."""
    hub = StandIn()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self._answer({"error": "Invalid credentials"}, 401)
            elif self.path == "/api/repos/create":
                asked = json.loads(body)
                name = "/".join(filter(None, (asked.get("organization"), asked["name"])))
                hub.repositories[name] = asked.get("private", asked.get("visibility") == "private")
                self._answer({"url": f"{hub.address}/{name}"})
            elif self.path.endswith("/preupload/main"):
                paths = [file["path"] for file in json.loads(body)["files"]]
                modes = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
                self._answer({"files": [{"path": path, **modes} for path in paths]})
            elif self.path.endswith("/commit/main"):
                self._commit(body)
            else:  # the client asks whether the card is sound
                self._answer({"errors": [], "warnings": []})

        def do_GET(self) -> None:
            found = re.fullmatch(r"/api/models/(.+?)(/revision/.*)?", self.path)
            name = found[1] if found else ""
            private = hub.repositories.get(name, True)
            self._answer({"id": name, "sha": "0" * 40, "private": private, "siblings": []})

        def _commit(self, body: bytes) -> None:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "header":
                    hub.messages.append(entry["value"]["summary"])
                elif entry["key"] == "file":
                    content = base64.b64decode(entry["value"]["content"])
                    hub.files[entry["value"]["path"]] = content
            name, oid = self.path.split("/api/models/")[1].split("/commit/")[0], "1" * 40
            at = f"{hub.address}/{name}/commit/{oid}"
            answer = {"commitUrl": at, "commitOid": oid, "success": True}
            self._answer(answer)

        def _answer(self, content: Any, status: int = 200) -> None:
            text = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
