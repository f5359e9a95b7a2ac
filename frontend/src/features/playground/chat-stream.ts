// A streamed chat completion, token by token with log-probabilities, by a key that this page alone holds.
import type { ChatBody } from "../../ui/call-snippets";

export interface Token {
  text: string;
  logprob: number | undefined;
}

/** What one event of the stream adds. */
export interface Delta {
  tokens: Token[];
  finish: string | null;
}

interface Chunk {
  error?: { message: string };
  choices?: { delta: { content?: string | null }; finish_reason: string | null; logprobs?: { content: { token: string; logprob: number }[] | null } | null }[];
}

/** Streams the answer into `onDelta`. Raises Error with the server's words, and AbortError when `signal` ends it. */
export async function chat(key: string, body: ChatBody, signal: AbortSignal, onDelta: (delta: Delta) => void): Promise<void> {
  const response = await fetch("/openai/v1/chat/completions", {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, logprobs: true }),
    credentials: "omit",
    signal,
  });
  if (!response.ok || !response.body) throw new Error(await problem(response));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const { events, left } = split(rest + value);
    rest = left;
    for (const event of events) {
      const delta = read(event);
      if (delta) onDelta(delta);
    }
  }
}

/** Whole events, and the beginning of the next one. */
export function split(text: string): { events: string[]; left: string } {
  const parts = text.split("\n\n");
  return { events: parts.slice(0, -1), left: parts[parts.length - 1] ?? "" };
}

/** Null for an event that adds nothing, such as the last one. Raises Error for the server's. */
export function read(event: string): Delta | null {
  const data = event
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => line.slice(6))
    .join("\n");
  if (!data || data === "[DONE]") return null;
  const chunk = JSON.parse(data) as Chunk;
  if (chunk.error) throw new Error(chunk.error.message);
  const choice = chunk.choices?.[0];
  if (!choice) return null;
  const scored = choice.logprobs?.content ?? [];
  const tokens = scored.length > 0 ? scored.map(({ token, logprob }) => ({ text: token, logprob })) : plain(choice.delta.content);
  return { tokens, finish: choice.finish_reason };
}

function plain(text: string | null | undefined): Token[] {
  return text ? [{ text, logprob: undefined }] : [];
}

async function problem(response: Response): Promise<string> {
  const body = (await response.json().catch(() => null)) as Chunk | null;
  return body?.error?.message ?? `The server returned ${String(response.status)}.`;
}
