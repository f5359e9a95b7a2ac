// Vercel AI SDK with its default provider, which speaks the Responses dialect.
import { createOpenAI } from "@ai-sdk/openai";
import { whole } from "./vercel.mjs";
import { MODEL } from "./weather.mjs";

export const play = (baseURL, apiKey) => whole(createOpenAI({ baseURL, apiKey })(MODEL));
