// An agent of the AI SDK with the tools of one MCP server.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, stepCountIs } from "ai";

const { MODEL, OPENAI_BASE_URL, SERVER_COMMAND, SERVER_TOKEN, SERVER_URL } = process.env;
const [command, ...args] = JSON.parse(SERVER_COMMAND);
const transport = SERVER_URL
  ? { type: "http", url: SERVER_URL, headers: { Authorization: `Bearer ${SERVER_TOKEN}` } }
  : new StdioTransport({ command, args });
const client = await createMCPClient({ transport });
const model = createOpenAI({ baseURL: OPENAI_BASE_URL })(MODEL);
await generateText({ model, tools: await client.tools(), prompt: "go", stopWhen: stepCountIs(40) });
await client.close();
