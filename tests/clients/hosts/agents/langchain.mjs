// An agent of LangChain.js with the tools of one MCP server.
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent } from "langchain";

const { MODEL, OPENAI_BASE_URL, SERVER_COMMAND, SERVER_TOKEN, SERVER_URL } = process.env;
const [command, ...args] = JSON.parse(SERVER_COMMAND);
const server = SERVER_URL
  ? { transport: "http", url: SERVER_URL, headers: { Authorization: `Bearer ${SERVER_TOKEN}` } }
  : { transport: "stdio", command, args };
const client = new MultiServerMCPClient({ mcpServers: { stead: server } });
const model = new ChatOpenAI({ model: MODEL, configuration: { baseURL: OPENAI_BASE_URL } });
const agent = createAgent({ model, tools: await client.getTools() });
await agent.invoke({ messages: [{ role: "user", content: "go" }] }, { recursionLimit: 100 });
await client.close();
