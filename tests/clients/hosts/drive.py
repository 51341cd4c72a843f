"""One real host, one conversation: what its model would receive.

    drive.py HOST stdio|http FOLDER

STEAD_BIN, STEAD_CONFIG, STEAD_URL and STEAD_TOKEN say what to talk to, PEERS where the hosts are. FOLDER gets the requests
(requests.jsonl), what the host said (said.txt) and what was received (received.json).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import conversation
from hosts import HOSTS, Ground
from model import Model

# Longer than any of these conversations takes.
PATIENCE = 150


def main():
    host, transport, folder = HOSTS[sys.argv[1]], sys.argv[2], Path(sys.argv[3])
    # Not inside the repository, which some hosts would look at, too.
    home = Path(tempfile.mkdtemp(prefix="stead-host-"))
    (Path(os.environ["STEAD_CONFIG"]).parent / "project/long.txt").write_text(conversation.LONG)
    model = Model(conversation.script(), folder / "requests.jsonl")
    http = transport == "http"
    ground = Ground(
        home=home,
        peers=Path(os.environ["PEERS"]),
        model=model.url,
        command=[os.environ["STEAD_BIN"], "mcp", "--agent", "coder", "--config", os.environ["STEAD_CONFIG"]],
        url=os.environ["STEAD_URL"] if http else None,
        token=os.environ["STEAD_TOKEN"] if http else None,
    )
    command, variables = host.start(ground)
    said = folder / "said.txt"
    with said.open("w") as out:
        process = subprocess.Popen(
            command,
            cwd=home,
            env=ground.environment() | variables,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            ended = f"ended with {process.wait(PATIENCE)}"
        except subprocess.TimeoutExpired:
            ended = f"did not end within {PATIENCE} seconds"
        finally:
            # What it started ends with it.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            shutil.rmtree(home, ignore_errors=True)
    last = max(model.heard, key=lambda asked: len(asked.results), default=None)
    received = {"host": host.title, "version": host.version(ground.peers), "transport": transport}
    received["refused"] = sorted(set(model.refused))
    if last:
        received |= conversation.received(last)
    (folder / "received.json").write_text(json.dumps(received, indent=1, ensure_ascii=False))
    faults = [f"the stand-in: {fault}" for fault in model.faults]
    if last is None:
        faults.append(f"no request had our tools; there were {model.other}")
    else:
        faults += conversation.faults(last, host)
    if faults:
        print(f"{host.title} over {transport} {ended}")
        print("\n".join(faults))
        print("".join(said.read_text(errors="replace").splitlines(True)[-15:])[-3000:])
        sys.exit(1)


main()
