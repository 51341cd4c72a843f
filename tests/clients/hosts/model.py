"""A stand-in for a model: it answers each request of a host with the next call of a script, and keeps every request.

It speaks the APIs that hosts use: Anthropic's messages, OpenAI's responses and chat completions, and Gemini's
generateContent, each with and without streaming. It holds no state: the number of results in a request says which call of
the script is next, so requests that are repeated or that are not part of the conversation do no harm.
"""

import gzip
import json
import re
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from apis import APIS

# A host that asks for the same call more often than this doesn't get on, and is told to end.
PATIENCE = 4


def called(tools, name):
    """What a host calls a tool of ours: with the server's name in it, where the host has tools of its own."""
    ours = [tool for tool in tools if "stead" in tool]
    for tool in ours or tools:
        if re.search(rf"(^|[^a-z]){name}$", tool):
            return tool
    return None


class Model(ThreadingHTTPServer):
    """The stand-in, on a free port of this machine."""

    daemon_threads = True

    def __init__(self, script, log):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.log = script, log
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.lock = threading.Lock()
        self.heard = []  # requests of the conversation
        self.other = []  # requests that are not part of it, by their path
        self.refused = []  # addresses that the host wanted to reach beyond this machine
        self.faults = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, path, body):
        """What a request is answered with: an object, or a list of events."""
        api = next((api for api in APIS if api.path.search(path)), None)
        if api is None:
            self.other.append(path)
            return {"input_tokens": 1, "totalTokens": 1, "data": [], "models": [], "object": "list"}
        body["stream"] = body.get("stream", False) or "streamGenerateContent" in path
        asked = api.asked(body)
        with self.lock:
            number = len(self.heard) + len(self.other)
            # No host has a tool of this name itself.
            if called(asked.tools, "undo") is None and not asked.may_search:
                self.other.append(f"{path} with the tools {sorted(asked.tools)}")
                return api.reply(body, number, None)
            step = len(asked.results)
            again = sum(len(before.results) == step for before in self.heard)
            self.heard.append(asked)
        if step >= len(self.script) or again >= PATIENCE:
            return api.reply(body, number, None)
        tool, arguments = self.script[step]
        name = called(asked.tools, tool)
        if name is None and asked.may_search:
            return api.search(body, number, f"stead {tool}")
        if name is None:
            raise ValueError(f"the host offers no {tool}: {sorted(asked.tools)}")
        return api.reply(body, number, (name, arguments))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Model

    def log_message(self, *_):
        pass

    def content(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            content = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        match self.headers.get("Content-Encoding"):
            case "gzip":
                return gzip.decompress(content)
            case "deflate":
                return zlib.decompress(content)
            case None | "identity":
                return content
            case other:
                raise ValueError(f"a request is compressed with {other}")

    def do_CONNECT(self):
        self.server.refused.append(self.path)
        self.send_error(502, "nothing leaves this machine")

    def do_GET(self):
        self.respond({})

    def do_POST(self):
        self.respond(json.loads(self.content() or b"{}"))

    def respond(self, body):
        path = self.path.split("?")[0].rstrip("/")
        with self.server.lock, open(self.server.log, "a", encoding="utf-8") as log:
            print(json.dumps({"path": self.path, "body": body}, ensure_ascii=False), file=log)
        try:
            status, answer = 200, self.server.answer(path, body)
        except Exception as error:  # The host gets an answer, and the test fails with the reason.
            self.server.faults.append(f"{path}: {type(error).__name__}: {error}")
            status, answer = 400, {"error": {"message": str(error), "type": "invalid_request_error", "code": 400}}
        events = isinstance(answer, list)
        text = "".join(map(event, answer)) if events else json.dumps(answer)
        self.send_response(status)
        self.send_header("Content-Type", "text/event-stream" if events else "application/json")
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def event(data):
    if isinstance(data, str):
        return f"data: {data}\n\n"
    name = f"event: {data['type']}\n" if "type" in data else ""
    return f"{name}data: {json.dumps(data)}\n\n"
