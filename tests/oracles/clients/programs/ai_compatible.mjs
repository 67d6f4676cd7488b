// The Vercel AI SDK by `@ai-sdk/openai-compatible`.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { program } from "./ai_program.mjs";

export const { chat, stream, structured, tools } = program((url) =>
  createOpenAICompatible({ name: "mini", baseURL: url, includeUsage: true })("script"),
);
