// What the programs beside this file share: the model's name, the question, and the one tool.
export const MODEL = "tiny-model";
export const SYSTEM = "You answer questions about the weather.";
export const QUESTION = "What is the weather in Paris, and then in Rome?";
export const DESCRIPTION = "Tell the weather of a city.";
export const PARAMETERS = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
export const weather = ({ city }) => `Sunny in ${city}, 21 degrees.`;
