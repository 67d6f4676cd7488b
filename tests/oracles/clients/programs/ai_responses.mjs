// The Vercel AI SDK by `@ai-sdk/openai`, responses, its default; items go whole, as nothing is stored.

import { createOpenAI } from "@ai-sdk/openai";
import { program } from "./ai_program.mjs";

export const { chat, stream, tools } = program(
  (url) => createOpenAI({ baseURL: url, apiKey: "none" })("script"),
  { openai: { store: false } },
);
