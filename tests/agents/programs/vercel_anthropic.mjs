// Vercel AI SDK with its Anthropic provider, streamed.
import { createAnthropic } from "@ai-sdk/anthropic";
import { streamed } from "./vercel.mjs";
import { MODEL } from "./weather.mjs";

export const play = (baseURL, apiKey) => streamed(createAnthropic({ baseURL, apiKey })(MODEL));
