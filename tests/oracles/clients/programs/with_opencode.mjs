// opencode, without its window. It prints each text when it is whole, so there is no stream to see.

import { linesOf, withTool } from "./command_line.mjs";

// Its package has a script put this in its place, and no scripts of packages run.
const PROGRAM = `opencode-${process.platform}-${process.arch}/bin/opencode`;

export async function chat(url, prompt, mcp = {}) {
  const provider = {
    npm: "@ai-sdk/openai-compatible",
    options: { baseURL: url, apiKey: "none" },
    models: { script: { tool_call: true, limit: { context: 90000, output: 1000 } } },
  };
  const model = "local/script";
  const config = { model, small_model: model, autoupdate: false, provider: { local: provider }, mcp };
  const env = { OPENCODE_CONFIG_CONTENT: JSON.stringify(config) };
  let said = "";
  for await (const line of linesOf(PROGRAM, ["run", "--format", "json", prompt], env)) {
    const { type, part } = JSON.parse(line);
    if (type === "text") said = part.text;
  }
  return said;
}

export function tools(url, prompt, tool, call) {
  return withTool(tool, call, (own) => {
    return chat(url, `${prompt} Ask oracle_get_weather.`, { oracle: { type: "remote", url: own } });
  });
}
