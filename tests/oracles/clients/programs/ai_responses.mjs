// The Vercel AI SDK by `@ai-sdk/openai`, responses, its default: a second turn refers to items.

import { createOpenAI } from "@ai-sdk/openai";
import { program } from "./ai_program.mjs";

export const { chat, stream, structured, tools } = program(
  (url) => createOpenAI({ baseURL: url, apiKey: "none" })("script"),
);
