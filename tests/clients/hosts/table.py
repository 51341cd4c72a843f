"""The tables of docs/hosts.md, from what each host's model received.

    table.py FOLDER...

Every FOLDER has a received.json, as drive.py leaves it.
"""

import json
import re
import sys
from datetime import date
from pathlib import Path

from conversation import STEPS, unescaped

COLUMNS = ["list", "read", "search", "edit", "undo", "denial", "image", "page", "map", "question"]
PATTERNS = {step.name: step.text for step in STEPS}


def words(text):
    """What a text is to a model: the words of a tool, or data about them."""
    text = re.sub(r"^(Script completed\n)?Wall time.*\nOutput:\n", "", text)  # Codex puts this before everything.
    try:
        data = json.loads(text)
    except ValueError:
        return "text and JSON" if '{"' in text else "text"
    has_words = isinstance(data, list) or data.keys() & {"content", "text", "error"}
    return "text in JSON" if has_words else "no text"


def image(text, images):
    line = "text" if re.search(PATTERNS["image"], text) else "no text"
    if images:
        return f"{line}, image"
    return f"{line}, base64" if "iVBOR" in text else f"{line}, no image"


def question(text):
    return "declined by the host" if "did not approve" in text else "denied: nobody to ask"


def places(received):
    """Where the model is told of the Workspaces."""
    found = {"instructions": received["instructions"], "tool description": received["described"]}
    return ", ".join(place for place, has in found.items() if has) or "nowhere"


def cells(received):
    steps = received.get("steps", {})
    found = {name: words(step["text"]) for name, step in steps.items()}
    if "image" in steps:
        found["image"] = image(**steps["image"])
    if "question" in steps:
        found["question"] = question(steps["question"]["text"])
    if "page" in steps:
        whole = re.search(PATTERNS["page"], unescaped(steps["page"]["text"]))
        found["page"] = "whole" if whole else "cut"
    if steps:
        found["map"] = places(received)
    return [found.get(column, "no tools") for column in COLUMNS]


def around(received, name):
    """What a host puts around a text, which is `…` here."""
    text = unescaped(received.get("steps", {}).get(name, {"text": "…"})["text"]).rstrip("\n")
    wrapped = re.sub(PATTERNS[name], "…", text)
    return "" if wrapped == "…" else "`" + wrapped.replace("\n", "\\n") + "`"


def shown(name, text):
    """A text as the page shows it: without what is different in every run of the host, or long."""
    lines = re.sub(r"(?<=source: )[^\]]+", "…", text.rstrip()).splitlines()
    return "\n".join([*lines[:2], "…", *lines[-2:]] if name == "page" else lines)


def main():
    everything = [json.loads((Path(folder) / "received.json").read_text()) for folder in sys.argv[1:]]
    rows, wrappers = {}, {}
    for received in everything:
        host = f"{received['host']} {received['version']}"
        transport = {"stdio": "stdio", "http": "HTTP"}[received["transport"]]
        rows.setdefault((host, *cells(received)), []).append(transport)
        wrappers.setdefault(host, [around(received, name) for name in ("search", "denial")])
    print(f"Measured on {date.today()}.\n")
    print(f"| host | over | {' | '.join(COLUMNS)} |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for (host, *found), transports in rows.items():
        print(f"| {host} | {', '.join(transports)} | {' | '.join(found)} |")
    print("\nThe text that hosts add around an answer and around an error. `…` stands for the text of Stead:\n")
    print("| host | answer | error |\n|---|---|---|")
    for host, found in wrappers.items():
        if any(found):
            print(f"| {host} | {' | '.join(found)} |")
    first = everything[0]
    said = "\n".join(f"<{name}>\n{shown(name, step['text'])}" for name, step in first["steps"].items())
    print(f"\nWhat the model of {first['host']} receives for each call:\n\n```text\n{said}\n```")


main()
