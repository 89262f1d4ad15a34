// The official TypeScript clients: typescript.mjs ENDPOINT KEY MODE.
// MODE is `sdk-1` (the 1.x package), or what the 2.x client negotiates: `legacy`, or a revision of the stateless era.
// Prints what test_clients.py reads: one JSON document of all that the client got to see.

const COOPERATES = "+12025550100";
const RINGS_FOR_30_SECONDS = "+12025550110";
const [endpoint, key, mode] = process.argv.slice(2);

async function connected(withKey) {
  const { Client } = await import(mode === "sdk-1" ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
  const { StreamableHTTPClientTransport } = await import(
    mode === "sdk-1" ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client"
  );
  const negotiation = mode === "legacy" ? mode : { pin: mode };
  const client = new Client({ name: "acceptance", version: "1" }, { versionNegotiation: { mode: negotiation } });
  const headers = withKey ? { Authorization: `Bearer ${key}` } : {};
  const transport = new StreamableHTTPClientTransport(new URL(endpoint), { requestInit: { headers } });
  await client.connect(transport);
  return [client, client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion];
}

async function call(client, name, args = {}) {
  const result = await client.callTool({ name, arguments: args });
  const text = result.content.map((block) => block.text).join("\n");
  return { error: result.isError === true, text, structured: result.structuredContent };
}

async function refusal(client) {
  try {
    return `not refused: ${JSON.stringify(await call(client, "list_agents"))}`;
  } catch (failure) {
    return String(failure);
  }
}

const seen = {};
const [stranger, revision] = await connected(false);
seen.revision = revision;
seen.tools = (await stranger.listTools()).tools.map((tool) => tool.name);
seen.refusal = await refusal(stranger);
await stranger.close();

const [client] = await connected(true);
await client.listTools(); // the schemas that it checks every result against
seen.agents = await call(client, "list_agents");
const agent_id = seen.agents.structured.agents[0].agent_id;
seen.placed = await call(client, "make_call", { agent_id, to: COOPERATES, context: "Ask for a table for two." });
const call_id = seen.placed.structured.call_id;
for (let round = 0; round < 6 && !seen.record?.structured.ended_at; round++) {
  seen.record = await call(client, "get_call", { call_id, wait_seconds: 20 });
}
const ringing = await call(client, "make_call", { agent_id, to: RINGS_FOR_30_SECONDS });
seen.ended = await call(client, "end_call", { call_id: ringing.structured.call_id });
seen.ended_again = await call(client, "end_call", { call_id });
await client.close();
console.log(JSON.stringify(seen));
