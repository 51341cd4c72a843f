"""An agent of Google's ADK with the tools of one MCP server."""

import asyncio
import json
import os

from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams, StreamableHTTPConnectionParams
from google.genai import types
from mcp import StdioServerParameters


async def main():
    command, *arguments = json.loads(os.environ["SERVER_COMMAND"])
    server = StdioConnectionParams(server_params=StdioServerParameters(command=command, args=arguments), timeout=30)
    if url := os.environ.get("SERVER_URL"):
        headers = {"Authorization": f"Bearer {os.environ['SERVER_TOKEN']}"}
        server = StreamableHTTPConnectionParams(url=url, headers=headers)
    tools = McpToolset(connection_params=server)
    agent = LlmAgent(model="gemini-2.5-pro", name="coder", tools=[tools])
    runner = InMemoryRunner(agent=agent, app_name="stead")
    session = await runner.session_service.create_session(app_name="stead", user_id="ann")
    message = types.Content(role="user", parts=[types.Part(text="go")])
    async for _ in runner.run_async(user_id="ann", session_id=session.id, new_message=message):
        pass
    await tools.close()


asyncio.run(main())
