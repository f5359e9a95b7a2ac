// OpenAI Agents SDK in JavaScript: its runner, over Responses, which is its default.
import { OpenAIResponsesModel } from "@openai/agents";
import { play as playAs } from "./openai_agents_js.mjs";

export const play = (baseURL, apiKey) => playAs(baseURL, apiKey, OpenAIResponsesModel);
