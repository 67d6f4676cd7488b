// `openai` for Node.js, chats.

import OpenAI from "openai";

const client = (url) => new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 });
const model = "script";

export async function chat(url, prompt) {
  const messages = [{ role: "user", content: prompt }];
  const answer = await client(url).chat.completions.create({ model, messages });
  return answer.choices[0].message.content;
}

export async function* stream(url, prompt) {
  const messages = [{ role: "user", content: prompt }];
  const asked = { model, messages, stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await client(url).chat.completions.create(asked)) {
    yield chunk.choices[0]?.delta.content;
  }
}

export async function tools(url, prompt, tool, call) {
  const runs = { ...tool, function: (given) => call(tool.name, given), parse: JSON.parse };
  const runner = client(url).chat.completions.runTools({
    model,
    stream: true,
    messages: [{ role: "user", content: prompt }],
    tools: [{ type: "function", function: runs }],
  });
  return await runner.finalContent();
}

export async function structured(url, prompt, schema) {
  const messages = [{ role: "user", content: prompt }];
  const json_schema = { name: "weather", strict: true, schema };
  const response_format = { type: "json_schema", json_schema };
  const answer = await client(url).chat.completions.create({ model, messages, response_format });
  return JSON.parse(answer.choices[0].message.content);
}
