// The Vercel AI SDK by `@ai-sdk/openai`, chats.

import { createOpenAI } from "@ai-sdk/openai";
import { program } from "./ai_program.mjs";

export const { chat, stream, structured, tools } = program((url) =>
  createOpenAI({ baseURL: url, apiKey: "none" }).chat("script"),
);
