// What the programs of agents for the command line share: how they are run, and given a tool.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

/** Run a program of this environment; yield the lines that it prints. */
export async function* linesOf(program, args, env) {
  const child = spawn(`node_modules/${program}`, args, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const closed = once(child, "close");
  yield* createInterface({ input: child.stdout });
  const [code] = await closed;
  if (code) throw new Error(`${program} ended with ${code}`);
}

/**
 * Serve one tool as the Model Context Protocol has it, while `use` runs; return what that returns.
 *
 * @param {(url: string) => Promise<string>} use
 */
export async function withTool(tool, call, use) {
  const { name, description, parameters: inputSchema } = tool;
  const methods = {
    initialize: ({ protocolVersion }) => {
      const serverInfo = { name: "oracle", version: "1" };
      return { protocolVersion, capabilities: { tools: {} }, serverInfo };
    },
    "tools/list": () => ({ tools: [{ name, description, inputSchema }] }),
    "tools/call": (called) => {
      const text = call(called.name, called.arguments);
      return { content: [{ type: "text", text }] };
    },
  };
  const server = createServer(async (request, response) => {
    const { id, method, params } = JSON.parse((await request.toArray()).join("") || "{}");
    if (request.method !== "POST" || id === undefined) {
      response.writeHead(request.method === "POST" ? 202 : 405).end();
      return;
    }
    response.setHeader("Content-Type", "application/json");
    const result = methods[method]?.(params) ?? {};
    response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    return await use(`http://127.0.0.1:${server.address().port}/`);
  } finally {
    server.close();
  }
}
