"""The conversation that every host has with the stand-in, and what the model has to receive."""

import re
from dataclasses import dataclass

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
        # A name, and what is said of it up to the minute; no tags, no seconds.
        r"logo\.png\b[^\n]*\b249\b[^\n]*\d\d:\d\d\b(?!:)[^\n]*\nreadme\.md\b[^\n]*\b29\b[^\n]*\d\d:\d\d\b(?!:)",
    ),
    Step(
        "read", "read_file", {"path": "/project/readme.md"}, rf"# Hello\nThe quick brown fox\.\n{TAG}"
    ),
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
        rf"[^\n]*/notes/plan\.md[^\n]*\s{TAG}",
    ),
    Step(
        "edit",
        "edit_file",
        {"path": "/notes/plan.md", "old_string": "two", "new_string": "three"},
        rf"[^\n]*/notes/plan\.md[^\n]*\s{TAG}",
    ),
    Step("undo", "undo", {}, r"[^\n]*\n[^\n]*edit_file[^\n]*\n[^\n]*/notes/plan\.md"),
    Step("read again", "read_file", {"path": "/notes/plan.md"}, rf"one\ntwo\n{TAG}"),
    Step(
        "denial",
        "write_file",
        {"path": "/project/new.md", "content": "x"},
        r"`/project/new\.md` is in the Workspace `/project`, which is READ_ONLY[^\n]* \[denied\]",
        is_error=True,
    ),
    Step("image", "read_file", {"path": "/project/logo.png"}, r"[^\n]*logo\.png[^\n]*", has_image=True),
    Step(
        "question", "create_directory", {"path": "/release/next"}, r"[^\n]*/release/next[^\n]* \[denied\]", is_error=True
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
    described = next(text for name, text in asked.tools.items() if re.search(r"\blist_directory$|_list_directory$", name))
    return {"instructions": instructions, "described": "/project" in described, "steps": steps}


def faults(asked, host):
    """What is wrong with what the model receives."""
    found = []
    for step, result in zip(STEPS, asked.results):
        wrong = fault(step, result, host)
        if wrong:
            found.append(f"{step.name}: {wrong}; the model receives {result}")
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
    matches = list(re.finditer(step.text, text))
    if len(matches) != 1:
        return f"its text has {len(matches)} times what matches {step.text!r}"
    beside = len(text) - len(matches[0][0])
    allowed = host.adds_to_errors if step.is_error else host.adds_to_images if step.has_image else host.adds
    if beside > allowed:
        return f"{beside} characters stand beside the text, where the host adds {allowed} at most"
    return None
