"""The conversation that every host has with the stand-in, and what the model has to receive."""

import re
from dataclasses import dataclass

from model import called

# A file of several pages, in lines of 60 characters: the number of characters ends a page, not that of lines.
LONG = "".join(f"line {number:04} {'x' * 49}\n" for number in range(1, 1001))

# A line at the end that has what the model can pass on.
TAG = r"\[version_tag [^\s\]]+\]"


@dataclass
class Step:
    """A call that the model makes, and the text that has to reach it."""

    name: str
    tool: str
    arguments: dict
    text: str  # a pattern
    is_error: bool = False
    has_image: bool = False


STEPS = [
    Step(
        "list",
        "list_directory",
        {"path": "/project"},
        r"logo\.png\t249\t[-\d]+T\d\d:\d\d\nlong\.txt\t60000\t[-\d]+T\d\d:\d\d\nreadme\.md\t29\t[-\d]+T\d\d:\d\d(?!:)",
    ),
    # What can't be written needs no tag.
    Step("read", "read_file", {"path": "/project/readme.md"}, r"# Hello\nThe quick brown fox\.(?!\s*\[)"),
    Step(
        "search",
        "grep",
        {"path": "/project", "pattern": "quick"},
        r"/project/readme\.md:2:The quick brown fox\.",
    ),
    Step(
        "write",
        "write_file",
        {"path": "/notes/plan.md", "content": "one\ntwo\n"},
        rf"Created /notes/plan\.md \(8 bytes\)\. {TAG}",
    ),
    Step(
        "edit",
        "edit_file",
        {"path": "/notes/plan.md", "old_string": "two", "new_string": "three"},
        rf"Made 1 replacement in /notes/plan\.md:\n1\t[^\n]*\n2\t[^\n]*\n{TAG}",
    ),
    Step("undo", "undo", {}, r"Undone\.\noperation [^\n]*edit_file[^\n]*\nreverted /notes/plan\.md"),
    Step("read again", "read_file", {"path": "/notes/plan.md"}, rf"one\ntwo\n{TAG}"),
    Step(
        "denial",
        "write_file",
        {"path": "/project/new.md", "content": "x"},
        r"`/project/new\.md` is in the Workspace `/project`, which is READ_ONLY[^\n]*? \[denied\]",
        is_error=True,
    ),
    Step("image", "read_file", {"path": "/project/logo.png"}, r"/project/logo\.png: image/png, 249 bytes", has_image=True),
    Step("page", "read_file", {"path": "/project/long.txt"}, r"line 0001 x+\n(line \d{4} x+\n){300,}\[more: offset \d+\]"),
    Step(
        "question",
        "create_directory",
        {"path": "/release/next"},
        r"May the agent `[^`]+` use `create_directory` on `/release/next`\?[^\n]*? \[denied\]",
        is_error=True,
    ),
]


def script():
    """The calls, for the stand-in."""
    return [(step.tool, step.arguments) for step in STEPS]


def unescaped(text):
    """Text that a host has put into JSON, perhaps more than once, as it was before."""
    for _ in range(2):
        text = re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text)
    return text


def received(asked):
    """What the model receives, step by step."""
    steps = {}
    for step, result in zip(STEPS, asked.results):
        steps[step.name] = {"text": result.text, "images": result.images}
    instructions = "/project" in asked.system and "/notes" in asked.system
    described = asked.tools.get(called(asked.tools, "list_directory"), "")
    return {"instructions": instructions, "described": "/project" in described, "steps": steps}


def faults(asked, host):
    """What is wrong with what the model receives."""
    found = []
    for step, result in zip(STEPS, asked.results):
        wrong = fault(step, result, host)
        if wrong:
            found.append(f"{step.name}: {wrong}; the model receives {repr(result)[:1000]}")
    for step in STEPS[len(asked.results) :]:
        found.append(f"{step.name}: the conversation ended before it")
    described = received(asked)
    if not (described["instructions"] or described["described"]):
        found.append("map: the model is not told of the Workspaces")
    return found


def fault(step, result, host):
    images = ["image/png"] if step.has_image and host.shows_images else []
    if result.images != images:
        return f"its images are not {images}"
    if result.is_error is not None and result.is_error != step.is_error:
        return f"it is {'no' if step.is_error else 'an'} error"
    text = unescaped(result.text)
    matches = [found[0] for found in re.finditer(step.text, text)]
    if step.name == "page" and host.cuts_pages:
        return "it is whole, but this host is known to cut it" if matches else None
    if len(matches) != (host.says_errors if step.is_error else 1):
        return f"its text has {len(matches)} times what matches {step.text!r}"
    # A line's end at the end of a text is part of it; some hosts remove it.
    beside = len(text.rstrip("\n")) - len("".join(matches))
    allowed = host.adds_to_errors if step.is_error else host.adds_to_images if step.has_image else host.adds
    if beside > allowed:
        return f"{beside} characters stand beside the text, where the host adds {allowed} at most"
    return None
