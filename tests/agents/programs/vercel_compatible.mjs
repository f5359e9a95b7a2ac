// Vercel AI SDK with its provider for servers like OpenAI's, streamed.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamed } from "./vercel.mjs";
import { MODEL } from "./weather.mjs";

export const play = (baseURL, apiKey) => streamed(createOpenAICompatible({ name: "ours", baseURL, apiKey })(MODEL));
