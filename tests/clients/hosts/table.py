"""The table of what reaches the model, from what each host's model received.

    table.py FOLDER...

Every FOLDER has a received.json, as drive.py leaves it.
"""

import json
import re
import sys
from datetime import date
from pathlib import Path

COLUMNS = ["list", "read", "search", "edit", "undo", "denial", "image", "map", "question"]


def answer(text):
    """What a text is to a model: the words of a tool, or data about them."""
    text = re.sub(r"^Wall time: .*\nOutput:\n", "", text)  # Codex puts this before everything.
    try:
        data = json.loads(text)
    except ValueError:
        return "text and JSON" if '{"' in text else "text"
    words = isinstance(data, dict) and data.keys() & {"content", "text", "error"}
    return "text in JSON" if words else "no text"


def image(step):
    text = "no text" if not step["text"] or answer(step["text"]) == "no text" else "text"
    if step["images"]:
        return f"image, {text}"
    return "base64" if "iVBOR" in step["text"] else f"no image, {text}"


def question(step):
    asked = "declined by the host" if "did not agree" in step["text"] else "no way to ask"
    return f"{asked}: {answer(step['text'])}"


def where_the_map_is(received):
    places = {"instructions": received["instructions"], "description": received["described"]}
    return ", ".join(place for place, has in places.items() if has) or "nowhere"


def cells(received):
    found = {"map": where_the_map_is(received) if "steps" in received else "-"}
    for name, step in received.get("steps", {}).items():
        found[name] = {"image": image, "question": question}.get(name, lambda step: answer(step["text"]))(step)
    return [found.get(column, "-") for column in COLUMNS]


def main():
    rows = {}
    transcript = ""
    for folder in sys.argv[1:]:
        received = json.loads((Path(folder) / "received.json").read_text())
        row = (f"{received['host']} {received['version']}", *cells(received))
        rows.setdefault(row, []).append({"stdio": "stdio", "http": "HTTP"}[received["transport"]])
        if not transcript:
            said = [f"<{name}>\n{step['text'].rstrip()}" for name, step in received["steps"].items()]
            transcript = "\n".join(said)
            speaker = row[0]
    print(f"Measured on {date.today()}.\n")
    print(f"| host | over | {' | '.join(COLUMNS)} |")
    print("|---" * (len(COLUMNS) + 2) + "|")
    for (host, *found), transports in rows.items():
        print(f"| {host} | {', '.join(transports)} | {' | '.join(found)} |")
    print(f"\nWhat the model of {speaker} receives, call by call:\n\n```text\n{transcript}\n```")


main()
