// An agent of Mastra with the tools of one MCP server.
import { createOpenAI } from "@ai-sdk/openai";
import { Agent } from "@mastra/core/agent";
import { MCPClient } from "@mastra/mcp";

const { MODEL, OPENAI_BASE_URL, SERVER_COMMAND, SERVER_TOKEN, SERVER_URL } = process.env;
const [command, ...args] = JSON.parse(SERVER_COMMAND);
const server = SERVER_URL
  ? { url: new URL(SERVER_URL), requestInit: { headers: { Authorization: `Bearer ${SERVER_TOKEN}` } } }
  : { command, args };
const client = new MCPClient({ servers: { stead: server } });
const model = createOpenAI({ baseURL: OPENAI_BASE_URL })(MODEL);
const agent = new Agent({ id: "coder", name: "coder", instructions: "", model, tools: await client.listTools() });
await agent.generate("go", { maxSteps: 40 });
await client.disconnect();
