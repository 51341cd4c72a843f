"""An agent of LangChain with the tools of one MCP server."""

import asyncio
import json
import os

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI


async def main():
    command, *arguments = json.loads(os.environ["SERVER_COMMAND"])
    server = {"transport": "stdio", "command": command, "args": arguments}
    if url := os.environ.get("SERVER_URL"):
        headers = {"Authorization": f"Bearer {os.environ['SERVER_TOKEN']}"}
        server = {"transport": "streamable_http", "url": url, "headers": headers}
    tools = await MultiServerMCPClient({"stead": server}).get_tools()
    agent = create_agent(ChatOpenAI(model=os.environ["MODEL"]), tools)
    await agent.ainvoke({"messages": [("user", "go")]}, {"recursion_limit": 100})


asyncio.run(main())
