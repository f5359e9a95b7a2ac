// A call of a model as a person would send it from elsewhere.

export interface ToolCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

export interface ChatMessage {
  role: string;
  content: string | null;
  tool_calls?: ToolCall[];
  tool_call_id?: string;
}

export interface ChatBody {
  model: string;
  messages: ChatMessage[];
  temperature: number;
  max_tokens: number;
  /** As OpenAI's API takes them. */
  tools?: unknown[];
}

/** The variable with the key of a served model, and with one of the project. */
const CALL_KEY = "TINKERSCRIPT_CALL_KEY";
export const PROJECT_KEY = "TINKERSCRIPT_API_KEY";

export function curlSnippet(baseUrl: string, body: ChatBody, key = CALL_KEY): string {
  const url = `${baseUrl}/chat/completions`;
  return `curl ${/[^\w.:/-]/.test(url) ? quoted(url) : url} \\
  -H "Authorization: Bearer $${key}" \\
  -H "Content-Type: application/json" \\
  -d ${quoted(JSON.stringify(body, null, 2))}
`;
}

/** In single quotes a shell reads everything as it is, but for a single quote. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

export function pythonSnippet(baseUrl: string, body: ChatBody, key = CALL_KEY): string {
  return `import os
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(baseUrl)}, api_key=os.environ["${key}"])
answer = client.chat.completions.create(
    model=${JSON.stringify(body.model)},
${argumentsOf(body)})
${printed(body)}`;
}

/** Asks the present policy of a run by an episode that is not trained, and leaves the run as it is. */
export function policySnippet(sessionId: string, body: Omit<ChatBody, "model">): string {
  return `from tinkerscript import TinkerScript

session = TinkerScript(session_id=${JSON.stringify(sessionId)})
episode = session.begin_episode(eval=True)
answer = episode.openai().chat.completions.create(
    model=episode.model,
${argumentsOf(body)})
${printed(body)}episode.abandon("asked by hand")
session.close(stop=False)  # the run goes on
`;
}

function argumentsOf({
  messages,
  temperature,
  max_tokens: most,
  tools,
}: Omit<ChatBody, "model">): string {
  const lines = messages.map((message) => `        ${python(message)},\n`).join("");
  return `    messages=[
${lines}    ],
    temperature=${String(temperature)},
    max_tokens=${String(most)},
${tools?.length ? `    tools=${python(tools)},\n` : ""}`;
}

function printed({ tools }: Omit<ChatBody, "model">): string {
  return `print(answer.choices[0].message.content)
${tools?.length ? "print(answer.choices[0].message.tool_calls)\n" : ""}`;
}

/** A value of JSON as Python writes it: its strings are JSON's, its constants have other names. */
export function python(value: unknown): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const entries = Object.entries(value).filter(([, part]) => part !== undefined);
  return `{${entries.map(([name, part]) => `${JSON.stringify(name)}: ${python(part)}`).join(", ")}}`;
}

export function keySnippet(key: string): string {
  return `export ${CALL_KEY}=${key}`;
}
