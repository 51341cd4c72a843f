// The official TypeScript client against the real binary: over stdio and HTTP, in both eras of the protocol, and the
// client before it (`@modelcontextprotocol/sdk`), which many hosts still have, in the era that it knows.
//
// STEAD_BIN, STEAD_CONFIG, STEAD_URL and STEAD_TOKEN say what to talk to.

import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as ClientBefore } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioBefore } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as HttpBefore } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const { STEAD_BIN, STEAD_CONFIG, STEAD_URL, STEAD_TOKEN } = process.env;
const README = "# Hello\nThe quick brown fox.\n";
// Longer than any answer takes: whoever waits longer waits for ever.
const PATIENCE = 60_000;

const ME = { name: "drive", version: "1" };
const LAUNCH = { command: STEAD_BIN, args: ["mcp", "--structured", "--agent", "coder", "--config", STEAD_CONFIG] };
const WITH_TOKEN = { requestInit: { headers: { Authorization: `Bearer ${STEAD_TOKEN}` } } };

const modern = () => new Client(ME, { versionNegotiation: { mode: "auto" } });
const legacy = () => new Client(ME);
const before = () => new ClientBefore(ME);

const RUNS = [
  ["stdio-modern", modern, () => new StdioClientTransport(LAUNCH), "2026-07-28"],
  ["stdio-legacy", legacy, () => new StdioClientTransport(LAUNCH), "2025-11-25"],
  ["stdio-before", before, () => new StdioBefore(LAUNCH), "2025-11-25"],
  ["http-modern", modern, () => new StreamableHTTPClientTransport(new URL(STEAD_URL), WITH_TOKEN), "2026-07-28"],
  ["http-legacy", legacy, () => new StreamableHTTPClientTransport(new URL(STEAD_URL), WITH_TOKEN), "2025-11-25"],
  ["http-before", before, () => new HttpBefore(new URL(STEAD_URL), WITH_TOKEN), "2025-11-25"],
];

async function tools(client, folder) {
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  assert.deepEqual(names, names.toSorted());
  for (const name of ["read_file", "write_file", "edit_file", "undo"]) assert(names.includes(name), name);

  const call = (name, args) => client.callTool({ name, arguments: args });
  const text = async (path) => (await call("read_file", { path })).content[0].text;
  const code = async (name, args) => {
    // The client itself holds what is structured to the tool's schema, errors included.
    const answer = await call(name, args);
    assert.equal(answer.isError, true);
    return answer.structuredContent.error.code;
  };

  assert.equal(await text("/project/readme.md"), README);
  assert.equal(await code("write_file", { path: "/project/new.md", content: "x" }), "denied");
  assert.equal(await code("read_file", { path: "/project/none.md" }), "not_found");
  assert.equal(await code("read_file", { path: 7 }), "invalid");
  await assert.rejects(call("fly", {}), { code: -32602 });

  const path = `${folder}/a.md`;
  await call("write_file", { path, content: "one\n" });
  assert(!(await call("edit_file", { path, old_string: "one", new_string: "two" })).isError);
  assert.equal(await text(path), "two\n");
  assert(!(await call("undo", {})).isError);
  assert.equal(await text(path), "one\n");
}

async function resources(client) {
  const { resources } = await client.listResources();
  const uri = "stead:///project/readme.md";
  assert(resources.some((resource) => resource.uri === uri));
  assert.equal((await client.readResource({ uri })).contents[0].text, README);
  assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 1);
  const missing = "stead:///project/none.md";
  await assert.rejects(client.readResource({ uri: missing }), (error) => error.data.uri === missing);
  const prompt = await client.getPrompt({ name: "filesystem_map" });
  assert(prompt.messages[0].content.text.includes("/notes"));
  assert(client.getInstructions().includes("/notes"));
}

async function updates(client, folder, version) {
  const path = `${folder}/a.md`;
  const uri = `stead://${path}`;
  const updated = new Promise((resolve) => {
    const kind = client instanceof Client ? "notifications/resources/updated" : ResourceUpdatedNotificationSchema;
    client.setNotificationHandler(kind, (notification) => resolve(notification.params.uri));
  });
  const subscription =
    version === "2026-07-28" ? await client.listen({ resourceSubscriptions: [uri] }) : undefined;
  if (!subscription) await client.subscribeResource({ uri });
  const write = (content) => client.callTool({ name: "write_file", arguments: { path, content } });
  await write("three\n");
  // The acknowledgement of `listen` may come before the server follows the file.
  for (let attempt = 0; subscription && !(await Promise.race([updated, sleep(500)])); attempt++) {
    await write(`three, attempt ${attempt}\n`);
  }
  assert.equal(await updated, uri);
  await (subscription ? subscription.close() : client.unsubscribeResource({ uri }));
}

// Long work tells how far it has come, and one that is given up leaves nothing behind.
async function longWork(client, folder) {
  const copy = (destination, options) => {
    const params = { name: "copy_file", arguments: { source: "/project/tree", destination } };
    // The client before takes a schema in between.
    return client instanceof Client ? client.callTool(params, options) : client.callTool(params, undefined, options);
  };
  const heard = [];
  const begun = Date.now();
  assert(!(await copy(`${folder}/tree`, { onprogress: ({ progress }) => heard.push(progress) })).isError);
  const took = Date.now() - begun;
  assert(heard.length > 0);
  assert.deepEqual(heard, heard.toSorted((a, b) => a - b));

  // A copy may be done before the server hears that it was given up.
  let isGone = false;
  for (let attempt = 0; attempt < 8 && !isGone; attempt++) {
    const [enough, destination] = [new AbortController(), `${folder}/gone-${attempt}`];
    const copied = copy(destination, { signal: enough.signal, onprogress: () => enough.abort() });
    if (await copied.then(() => true, () => false)) continue;
    // If it went on it would be done by then.
    await sleep(took);
    const stat = await client.callTool({ name: "stat", arguments: { path: destination } });
    isGone = stat.structuredContent.error?.code === "not_found";
  }
  assert(isGone, "each copy was done before it was given up");
}

// Whoever has no token is not let in, in either era.
for (const make of [modern, legacy]) {
  await assert.rejects(make().connect(new StreamableHTTPClientTransport(new URL(STEAD_URL))), { status: 401 });
}

const tree = join(dirname(STEAD_CONFIG), "project/tree");
await mkdir(tree);
for (let file = 0; file < 20_000; file++) await writeFile(join(tree, `${file}.txt`), `${file}\n`);

for (const [name, make, transport, version] of RUNS) {
  const late = setTimeout(() => {
    console.error(`typescript ${name}: no answer`);
    process.exit(1);
  }, PATIENCE);
  const client = make();
  await client.connect(transport());
  assert.equal(client.getServerVersion().name, "stead");
  if (client instanceof Client) assert.equal(client.getNegotiatedProtocolVersion(), version);
  const folder = `/notes/typescript-${name}`;
  await tools(client, folder);
  await resources(client);
  await updates(client, folder, version);
  await longWork(client, folder);
  await client.close();
  clearTimeout(late);
  console.log(`typescript ${name} ${version}: ok`);
}
