"""The official Python client against the real binary: over stdio and HTTP, in both eras of the protocol.

STEAD_BIN, STEAD_CONFIG, STEAD_URL and STEAD_TOKEN say what to talk to.
"""

import os
import warnings
from contextlib import asynccontextmanager

import anyio
import httpx2
import jsonschema
from mcp import Client, MCPDeprecationWarning, MCPError, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client

README = "# Hello\nThe quick brown fox.\n"
# Longer than any answer takes: whoever waits longer waits for ever.
PATIENCE = 20

# What the older era has is deprecated, and tested.
warnings.simplefilter("ignore", MCPDeprecationWarning)


def same(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


@asynccontextmanager
async def stdio():
    yield StdioServerParameters(
        command=os.environ["STEAD_BIN"],
        args=["mcp", "--structured", "--agent", "coder", "--config", os.environ["STEAD_CONFIG"]],
    )


@asynccontextmanager
async def http():
    headers = {"Authorization": f"Bearer {os.environ['STEAD_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as client:
        yield streamable_http_client(os.environ["STEAD_URL"], http_client=client)


class Heard:
    """What the server says by itself."""

    def __init__(self):
        self.updates, self.updated = anyio.create_memory_object_stream(16)

    async def __call__(self, message):
        if isinstance(message, types.ResourceUpdatedNotification):
            await self.updates.send(str(message.params.uri))


async def tools(client, folder):
    listed = (await client.list_tools()).tools
    names = [tool.name for tool in listed]
    same(names, sorted(names))
    assert {"read_file", "write_file", "edit_file", "undo"} <= set(names), names
    for tool in listed:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)

    read = await client.call_tool("read_file", {"path": "/project/readme.md"})
    same((read.is_error, read.content[0].text), (False, README))
    # The client itself holds what is structured to the tool's schema, errors included.
    denied = await client.call_tool("write_file", {"path": "/project/new.md", "content": "x"})
    same((denied.is_error, denied.structured_content["error"]["code"]), (True, "denied"))
    missing = await client.call_tool("read_file", {"path": "/project/none.md"})
    same(missing.structured_content["error"]["code"], "not_found")
    wrong = await client.call_tool("read_file", {"path": 7})
    same(wrong.structured_content["error"]["code"], "invalid")
    try:
        await client.call_tool("fly", {})
        raise AssertionError("there is no tool `fly`")
    except MCPError as error:
        same(error.error.code, types.INVALID_PARAMS)

    path = f"{folder}/a.md"
    await client.call_tool("write_file", {"path": path, "content": "one\n"})
    edited = await client.call_tool("edit_file", {"path": path, "old_string": "one", "new_string": "two"})
    same(edited.is_error, False)
    same((await client.call_tool("read_file", {"path": path})).content[0].text, "two\n")
    same((await client.call_tool("undo", {})).is_error, False)
    same((await client.call_tool("read_file", {"path": path})).content[0].text, "one\n")


async def resources(client):
    uris = [resource.uri for resource in (await client.list_resources()).resources]
    assert "stead:///project/readme.md" in uris, uris
    read = await client.read_resource("stead:///project/readme.md")
    same(read.contents[0].text, README)
    assert (await client.list_resource_templates()).resource_templates
    try:
        await client.read_resource("stead:///project/none.md")
        raise AssertionError("there is no such file")
    except MCPError as error:
        same(error.error.data["code"], "not_found")
    prompt = await client.get_prompt("filesystem_map")
    assert "/notes" in prompt.messages[0].content.text
    assert "/notes" in client.instructions


async def updates(client, folder, heard):
    path = f"{folder}/a.md"
    uri = f"stead://{path}"

    async def change(content):
        await client.call_tool("write_file", {"path": path, "content": content})

    async def change_until(is_heard):
        # The acknowledgement of `listen` may come before the server follows the file.
        attempt = 0
        while not is_heard.is_set():
            await change(f"three, attempt {attempt}\n")
            attempt += 1
            with anyio.move_on_after(0.5):
                await is_heard.wait()

    with anyio.fail_after(PATIENCE):
        if client.protocol_version < "2026-07-28":
            await client.subscribe_resource(uri)
            await change("three\n")
            same(await heard.updated.receive(), uri)
            await client.unsubscribe_resource(uri)
            return
        async with (
            client.listen(resource_subscriptions=[uri]) as subscription,
            anyio.create_task_group() as tasks,
        ):
            is_heard = anyio.Event()
            tasks.start_soon(change_until, is_heard)
            async for event in subscription:
                same(str(event.uri), uri)
                is_heard.set()
                break


async def main():
    for transport in (stdio, http):
        for mode, version in (("legacy", "2025-11-25"), ("auto", "2026-07-28")):
            heard = Heard()
            async with transport() as server:
                async with Client(
                    server, mode=mode, message_handler=heard, read_timeout_seconds=PATIENCE
                ) as client:
                    same(client.protocol_version, version)
                    same(client.server_info.name, "stead")
                    folder = f"/notes/python-{transport.__name__}-{mode}"
                    await tools(client, folder)
                    await resources(client)
                    await updates(client, folder, heard)
            print(f"python {transport.__name__} {version}: ok")


anyio.run(main)
