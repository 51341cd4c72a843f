"""Two threads of one agent, each a small graph of steps as agent frameworks run them, over HTTP.

Each thread keeps its drafts at /project, where no other thread sees them, and both add to the glossary at /shared. A step
only says what it did; where the thread is in its graph is kept in the thread itself, so a loop that is stopped goes on where
it was. Needs nothing but Python and the program `stead` (or the one that STEAD_BIN names).
"""

import json
import os
import subprocess
import threading
import urllib.request

STEAD = os.environ.get("STEAD_BIN", "stead")
PROTOCOL = "2026-07-28"


class Thread:
    """The stead of one thread: its token says which agent and which thread that is."""

    def __init__(self, url, name):
        self.url, self.name, self.last_id = url, name, 0
        created = run("token", "create", "--agent", "writer", "--thread", name, "--json")
        self.token = json.loads(created)["token"]
        self.tools = {tool["name"] for tool in self.request("tools/list", {})["tools"]}

    def request(self, method, params):
        self.last_id += 1
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": {"name": "threads-example", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": PROTOCOL,
            "Mcp-Method": method,
        }
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        request = urllib.request.Request(self.url, json.dumps(message).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as reply:
            text = reply.read().decode()
        # The answer comes alone, or as the last event of a stream.
        events = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
        return json.loads(events[-1] if events else text)["result"]

    def call(self, tool, **arguments):
        """What a tool answers; an error is an answer, too, and is returned as `None`."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        return None if result.get("isError") else result["content"][0]["text"]

    def remember(self, step):
        """Keeps where the thread is: in its State, or in a file if it has no State."""
        if "state_set" in self.tools:
            assert self.call("state_set", key="step", value=json.dumps(step)) is not None
        else:
            self.call("write_file", path="/project/.step", content=step)

    def remembered(self):
        if "state_get" in self.tools:
            return self.call("state_get", key="step")
        return self.call("read_file", path="/project/.step")


# The graph. A real one would ask a model in each step; the calls would be the same.


def plan(thread, topic):
    assert thread.call("write_file", path="/project/plan.md", content=f"Write about {topic}.\n")
    return "draft"


def draft(thread, topic):
    assert topic in thread.call("read_file", path="/project/plan.md")
    assert thread.call("write_file", path="/project/draft.md", content=f"All about {topic}.\n")
    return "share"


def share(thread, topic):
    assert thread.call("append_file", path="/shared/glossary.md", content=f"{topic}\n")
    return None


STEPS = {"plan": plan, "draft": draft, "share": share}


def run_graph(thread, topic):
    step = "plan"
    while step:
        thread.remember(step)
        step = STEPS[step](thread, topic)
        print(f"{thread.name}: next is {step or 'the end'}", flush=True)


def run(*arguments):
    return subprocess.run([STEAD, *arguments], check=True, capture_output=True, text=True).stdout


def main():
    command = [STEAD, "serve", "--listen", "127.0.0.1:0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = json.loads(server.stdout.readline())["listening"]
        topics = {"monday": "tides", "tuesday": "comets"}
        threads = {name: Thread(url, name) for name in topics}
        loops = [threading.Thread(target=run_graph, args=(threads[name], topics[name])) for name in topics]
        for loop in loops:
            loop.start()
        for loop in loops:
            loop.join()
        for name, thread in threads.items():
            others = [topic for other, topic in topics.items() if other != name]
            seen = thread.call("read_file", path="/project/draft.md") + thread.call("list_directory", path="/project")
            assert topics[name] in seen and not any(topic in seen for topic in others), seen
            glossary = thread.call("read_file", path="/shared/glossary.md")
            assert all(topic in glossary for topic in topics.values()), glossary
            assert "share" in thread.remembered(), thread.remembered()
        print("Each thread has its own draft, and both have the same glossary.")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
