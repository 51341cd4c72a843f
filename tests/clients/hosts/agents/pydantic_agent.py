"""An agent of pydantic-ai with the tools of one MCP server."""

import asyncio
import json
import os

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset


async def main():
    command, *arguments = json.loads(os.environ["SERVER_COMMAND"])
    tools = MCPToolset(StdioTransport(command, arguments))
    if url := os.environ.get("SERVER_URL"):
        tools = MCPToolset(url, headers={"Authorization": f"Bearer {os.environ['SERVER_TOKEN']}"})
    async with Agent(f"openai-chat:{os.environ['MODEL']}", toolsets=[tools]) as agent:
        await agent.run("go")


asyncio.run(main())
