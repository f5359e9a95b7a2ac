// A call of a model as a person would send it from elsewhere.

export interface ChatBody {
  model: string;
  messages: { role: string; content: string }[];
  temperature: number;
  max_tokens: number;
}

const KEY = "TINKERSCRIPT_CALL_KEY";

export function curlSnippet(baseUrl: string, body: ChatBody): string {
  // In single quotes a shell reads everything as it is, but for a single quote.
  const json = JSON.stringify(body, null, 2).replaceAll("'", String.raw`'\''`);
  return `curl ${baseUrl}/chat/completions \\
  -H "Authorization: Bearer $${KEY}" \\
  -H "Content-Type: application/json" \\
  -d '${json}'
`;
}

export function pythonSnippet(baseUrl: string, body: ChatBody): string {
  // A JSON string is a Python string; null, true and false do not occur.
  const messages = body.messages.map((message) => `        {"role": ${JSON.stringify(message.role)}, "content": ${JSON.stringify(message.content)}},`).join("\n");
  return `import os
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(baseUrl)}, api_key=os.environ["${KEY}"])
answer = client.chat.completions.create(
    model=${JSON.stringify(body.model)},
    messages=[
${messages}
    ],
    temperature=${String(body.temperature)},
    max_tokens=${String(body.max_tokens)},
)
print(answer.choices[0].message.content)
`;
}

export function keySnippet(key: string): string {
  return `export ${KEY}=${key}`;
}
