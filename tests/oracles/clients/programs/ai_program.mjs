// The Vercel AI SDK, whatever the provider: its model and the options of its requests.

import { generateText, jsonSchema, Output, stepCountIs, streamText, tool as toolOf } from "ai";

export function program(modelOf, providerOptions = {}) {
  const asking = (url, prompt) => ({
    model: modelOf(url),
    prompt,
    providerOptions,
    maxRetries: 0,
    onError: ({ error }) => {
      throw error;
    },
  });
  return {
    chat: async (url, prompt) => (await generateText(asking(url, prompt))).text,

    async *stream(url, prompt) {
      yield* streamText(asking(url, prompt)).textStream;
    },

    async tools(url, prompt, tool, call) {
      const offered = toolOf({
        description: tool.description,
        inputSchema: jsonSchema(tool.parameters),
        execute: (given) => call(tool.name, given),
      });
      const result = streamText({
        ...asking(url, prompt),
        tools: { [tool.name]: offered },
        stopWhen: stepCountIs(3),
      });
      return await result.text;
    },

    async structured(url, prompt, schema) {
      const output = Output.object({ schema: jsonSchema(schema) });
      return (await generateText({ ...asking(url, prompt), output })).output;
    },
  };
}
