// What the Vercel AI SDK's programs share: a loop with one tool, whole or streamed.
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { DESCRIPTION, PARAMETERS, QUESTION, SYSTEM, weather } from "./weather.mjs";

const options = (model) => ({
  model, system: SYSTEM, prompt: QUESTION, maxRetries: 0, stopWhen: stepCountIs(5),
  tools: { get_weather: tool({ description: DESCRIPTION, inputSchema: jsonSchema(PARAMETERS), execute: weather }) },
});

export const whole = async (model) => (await generateText(options(model))).text;

export async function streamed(model) {
  let failure = null;
  const result = streamText({ ...options(model), onError: ({ error }) => { failure = error; } });
  try {
    const text = await result.text;
    if (!failure) return text;
  } catch (error) {
    failure ??= error;
  }
  throw failure;
}
