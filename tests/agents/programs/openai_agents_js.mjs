// OpenAI Agents SDK in JavaScript: its runner, over chat completions.
import { Agent, OpenAIChatCompletionsModel, run, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { DESCRIPTION, MODEL, PARAMETERS, QUESTION, SYSTEM, weather } from "./weather.mjs";

setTracingDisabled(true);

export async function play(baseURL, apiKey, Model = OpenAIChatCompletionsModel) {
  const model = new Model(new OpenAI({ baseURL, apiKey, maxRetries: 0 }), MODEL);
  const parameters = { ...PARAMETERS, additionalProperties: true };
  const found = tool({ name: "get_weather", description: DESCRIPTION, parameters, strict: false, execute: weather });
  const agent = new Agent({ name: "Weather", instructions: SYSTEM, model, tools: [found] });
  return (await run(agent, QUESTION)).finalOutput;
}
