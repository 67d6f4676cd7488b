// `openai` for Node.js, responses.

import OpenAI from "openai";

const client = (url) => new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 });
const model = "script";

export async function chat(url, prompt) {
  return (await client(url).responses.create({ model, input: prompt })).output_text;
}

export async function* stream(url, prompt) {
  for await (const event of await client(url).responses.create({
    model,
    input: prompt,
    stream: true,
  })) {
    if (event.type === "response.output_text.delta") yield event.delta;
  }
}

export async function tools(url, prompt, tool, call) {
  const input = [{ role: "user", content: prompt }];
  for (;;) {
    const asked = { model, input, tools: [{ type: "function", strict: false, ...tool }] };
    const response = await client(url).responses.stream(asked).finalResponse();
    const calls = response.output.filter((item) => item.type === "function_call");
    if (!calls.length) return response.output_text;
    input.push(...response.output);
    for (const one of calls) {
      const output = call(one.name, one.arguments);
      input.push({ type: "function_call_output", call_id: one.call_id, output });
    }
  }
}

export async function structured(url, prompt, schema) {
  const text = { format: { type: "json_schema", name: "weather", strict: true, schema } };
  const response = await client(url).responses.create({ model, input: prompt, text });
  return JSON.parse(response.output_text);
}
