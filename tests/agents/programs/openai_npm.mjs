// The npm package openai: its own runner of tools.
import OpenAI from "openai";
import { DESCRIPTION, MODEL, PARAMETERS, QUESTION, SYSTEM, weather } from "./weather.mjs";

export async function play(baseURL, apiKey) {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const run = { name: "get_weather", description: DESCRIPTION, parameters: PARAMETERS, function: weather, parse: JSON.parse };
  const runner = client.chat.completions.runTools({
    model: MODEL,
    messages: [{ role: "system", content: SYSTEM }, { role: "user", content: QUESTION }],
    tools: [{ type: "function", function: run }],
  });
  return await runner.finalContent();
}
