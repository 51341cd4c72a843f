"""A planner, three coders and a reviewer work on one code base, each over an MCP connection of its own.

The planner writes a task for each coder. The coders work at the same time, each in a fork of the code base, so none of them sees
half of another one's work. The reviewer merges the forks. Two of the coders change the same line: the second one to be merged
is told so, brings the other's change into its fork, resolves the conflict, and is merged then. Needs nothing but Python and the
program `stead` (or the one that STEAD_BIN names).
"""

import json
import os
import subprocess
import threading

STEAD = os.environ.get("STEAD_BIN", "stead")
CODERS = ["coder-1", "coder-2", "coder-3"]
GREETING = 'def greet(name):\n    return "Hello, " + name\n'
START = GREETING + "\n\ndef part(name):\n    return None\n"


class Agent:
    """An agent with its connection: `stead mcp` on standard input and output, as a host starts it."""

    def __init__(self, name):
        self.name, self.last_id = name, 0
        command = [STEAD, "mcp", "--agent", name]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        client = {"name": "team-example", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        print(json.dumps(message), file=self.server.stdin, flush=True)

    def request(self, method, params):
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        while True:
            message = json.loads(self.server.stdout.readline())
            if message.get("id") == self.last_id and "method" not in message:
                return message["result"]

    def call(self, tool, **arguments):
        """What a tool answers, and whether it succeeded. A model would read the text either way."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        return result["content"][0]["text"], not result.get("isError")

    def must(self, tool, **arguments):
        text, succeeded = self.call(tool, **arguments)
        assert succeeded, f"{self.name}, {tool}: {text}"
        return text

    def close(self):
        self.server.stdin.close()
        self.server.wait()


# What the models do. A real one would think about what it reads; the calls would be the same.


def plan(planner):
    assert "def greet" in planner.must("read_file", path="/code/greeting.py")
    tasks = {
        "coder-1": "Let greet() say Good morning.",
        "coder-2": "Let part() say Goodbye.",
        "coder-3": "Let greet() end with an exclamation mark.",
    }
    for coder, task in tasks.items():
        planner.must("write_file", path=f"/tasks/{coder}.md", content=task + "\n")


EDITS = {
    "coder-1": ('"Hello, " + name', '"Good morning, " + name'),
    "coder-2": ("return None", 'return "Goodbye, " + name'),
    "coder-3": ('"Hello, " + name', '"Hello, " + name + "!"'),
}


def work(coder):
    coder.must("read_file", path=f"/tasks/{coder.name}.md")
    coder.must("fork_workspace", path="/code", name="task")
    old, new = EDITS[coder.name]
    coder.must("edit_file", path="/forks/task/greeting.py", old_string=old, new_string=new)
    coder.must("write_file", path=f"/forks/task/notes/{coder.name}.md", content="Done.\n")
    # The fork shows this coder's work alone.
    notes = coder.must("list_directory", path="/forks/task/notes")
    assert coder.name in notes and not any(other in notes for other in CODERS if other != coder.name), notes
    coder.must("diff_fork", fork="task")


def resolve(coder):
    """Brings the others' work into the fork, and resolves what is in conflict there."""
    text, _ = coder.call("update_fork", fork="task")
    assert "/forks/task/greeting.py" in text, text
    marked = coder.must("read_file", path="/forks/task/greeting.py")
    begin, end = marked.index("<<<<<<< target"), marked.index(">>>>>>> fork")
    conflict = marked[begin : marked.index("\n", end) + 1]
    resolved = '    return "Good morning, " + name + "!"\n'
    coder.must("edit_file", path="/forks/task/greeting.py", old_string=conflict, new_string=resolved)


def review(reviewer, coders):
    """Merges the forks as they come; a coder whose fork is in conflict resolves it."""
    for coder in coders:
        fork = f"{coder.name}/task"
        reviewer.must("diff_fork", fork=fork)
        text, is_merged = reviewer.call("merge_fork", fork=fork)
        if not is_merged:
            assert "conflict" in text, text
            print(f"{coder.name}: in conflict, asked to resolve it", flush=True)
            resolve(coder)
            reviewer.must("merge_fork", fork=fork)
        reviewer.must("discard_fork", fork=fork)
        print(f"{coder.name}: merged", flush=True)


def main():
    agents = {name: Agent(name) for name in ["planner", "reviewer", *CODERS]}
    try:
        agents["reviewer"].must("write_file", path="/code/greeting.py", content=START)
        plan(agents["planner"])
        coders = [agents[name] for name in CODERS]
        failures = []

        def guarded(coder):
            try:
                work(coder)
            except BaseException as failure:
                failures.append(failure)
                raise

        workers = [threading.Thread(target=guarded, args=[coder]) for coder in coders]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not failures, failures
        # Nothing has reached the code base yet.
        assert agents["planner"].must("read_file", path="/code/greeting.py").startswith(GREETING)
        review(agents["reviewer"], coders)
        code = agents["planner"].must("read_file", path="/code/greeting.py")
        for line in ['return "Good morning, " + name + "!"', 'return "Goodbye, " + name']:
            assert line in code, code
        notes = agents["planner"].must("list_directory", path="/code/notes")
        assert all(coder in notes for coder in CODERS), notes
        print("The code base has the work of all three.")
    finally:
        for agent in agents.values():
            agent.close()


if __name__ == "__main__":
    main()
