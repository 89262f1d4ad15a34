// The official TypeScript clients without a key: oauth.mjs ENDPOINT MODE.
// MODE as in typescript.mjs. Prints `AUTHORIZE <address>` each time a person's browser is needed, and at the end one JSON
// document of what it saw.

import { createServer } from "node:http";

const COOPERATES = "+12025550100";
const [endpoint, mode] = process.argv.slice(2);
const old = mode === "sdk-1";
const { Client } = await import(old ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client");
const { StreamableHTTPClientTransport } = await import(
  old ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client"
);

let arrived;
const callback = createServer((request, response) => {
  response.end("Done. You can close this page.");
  const { pathname, searchParams } = new URL(request.url, "http://127.0.0.1");
  if (pathname === "/callback") arrived(searchParams); // a browser asks for an icon too
});
await new Promise((ready) => callback.listen(0, "127.0.0.1", ready));
const redirectUrl = `http://127.0.0.1:${callback.address().port}/callback`;

let back;
const kept = {};
const provider = {
  redirectUrl,
  clientMetadata: {
    client_name: "Acceptance",
    redirect_uris: [redirectUrl],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: (address) => {
    back = new Promise((resolve) => (arrived = resolve));
    console.log(`AUTHORIZE ${address}`);
  },
};

async function connected() {
  const negotiation = mode === "legacy" ? mode : { pin: mode };
  const client = new Client({ name: "acceptance", version: "1" }, { versionNegotiation: { mode: negotiation } });
  const transport = new StreamableHTTPClientTransport(new URL(endpoint), { authProvider: provider });
  await client.connect(transport);
  return [client, transport];
}

let [client, transport] = await connected();

async function call(name, args = {}) {
  try {
    const result = await client.callTool({ name, arguments: args });
    return { error: result.isError === true, structured: result.structuredContent };
  } catch (failure) {
    if (!/unauthorized/i.test(`${failure.constructor.name} ${failure.message}`)) throw failure;
    const parameters = await back; // the person has decided; the SDK leaves it to us to try again
    await transport.finishAuth(old ? parameters.get("code") : parameters);
    return call(name, args);
  }
}

const seen = {};
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.agents = await call("list_agents");
const agent_id = seen.agents.structured.agents[0].agent_id;
seen.first_scope = kept.tokens.scope;
seen.placed = await call("make_call", { agent_id, to: COOPERATES });
seen.last_scope = kept.tokens.scope;
seen.record = await call("get_call", { call_id: seen.placed.structured.call_id });
await client.close();
callback.close();
callback.closeAllConnections();
console.log(JSON.stringify(seen));
