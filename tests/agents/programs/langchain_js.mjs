// LangChain.js: its agent, over its OpenAI client.
import { ChatOpenAI } from "@langchain/openai";
import { createAgent, tool } from "langchain";
import { DESCRIPTION, MODEL, PARAMETERS, QUESTION, SYSTEM, weather } from "./weather.mjs";

export async function play(baseURL, apiKey) {
  const model = new ChatOpenAI({ model: MODEL, apiKey, maxRetries: 0, configuration: { baseURL } });
  const tools = [tool(weather, { name: "get_weather", description: DESCRIPTION, schema: PARAMETERS })];
  const result = await createAgent({ model, tools, systemPrompt: SYSTEM }).invoke({ messages: [["user", QUESTION]] });
  return result.messages.at(-1).content;
}
