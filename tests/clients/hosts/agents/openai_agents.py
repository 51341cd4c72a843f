"""An agent of the OpenAI Agents SDK with the tools of one MCP server."""

import asyncio
import json
import os

from agents import Agent, Runner, set_tracing_disabled
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp


async def main():
    set_tracing_disabled(True)
    command, *arguments = json.loads(os.environ["SERVER_COMMAND"])
    server = MCPServerStdio({"command": command, "args": arguments})
    if url := os.environ.get("SERVER_URL"):
        headers = {"Authorization": f"Bearer {os.environ['SERVER_TOKEN']}"}
        server = MCPServerStreamableHttp({"url": url, "headers": headers})
    async with server:
        await Runner.run(Agent("coder", model=os.environ["MODEL"], mcp_servers=[server]), "go", max_turns=40)


asyncio.run(main())
