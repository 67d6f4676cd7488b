// Qwen Code, without its window.

import { mkdirSync, writeFileSync } from "node:fs";
import { linesOf, withTool } from "./command_line.mjs";

async function* events(url, prompt) {
  const args = ["-p", prompt, "--output-format", "stream-json", "--include-partial-messages"];
  const env = { OPENAI_BASE_URL: url, OPENAI_API_KEY: "none", OPENAI_MODEL: "script" };
  for await (const line of linesOf(".bin/qwen", args, env)) yield JSON.parse(line);
}

export async function chat(url, prompt) {
  let said = "";
  for await (const { type, result } of events(url, prompt)) if (type === "result") said = result;
  return said;
}

export async function* stream(url, prompt) {
  for await (const { event } of events(url, prompt)) {
    if (event?.delta?.type === "text_delta") yield event.delta.text;
  }
}

export function tools(url, prompt, tool, call) {
  return withTool(tool, call, (httpUrl) => {
    const settings = { mcpServers: { oracle: { httpUrl, trust: true } } };
    mkdirSync(".qwen", { recursive: true });
    writeFileSync(".qwen/settings.json", JSON.stringify(settings));
    return chat(url, `${prompt} Ask mcp__oracle__get_weather.`);
  });
}
