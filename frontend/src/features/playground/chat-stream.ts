// A streamed chat completion, token by token with log-probabilities, by a key that this page alone holds.
import { api, longFetch, unwrap } from "../../api/client";
import { ApiError, unreachable } from "../../api/errors";
import type { ChatBody } from "../../ui/call-snippets";

/** One token, or several that have their text together only: the bytes of one character, say. */
export interface Token {
  text: string;
  /** The sum over its tokens. */
  logprob: number | undefined;
  /** How many tokens were scored. */
  count: number;
}

/** A part of a call of a tool: its id and name come once, its arguments in pieces. */
interface CallPiece {
  index: number;
  id?: string;
  function?: { name?: string; arguments?: string };
}

/** What one event of the stream adds. */
export interface Delta {
  tokens: Token[];
  /** What the answer is without its thoughts. */
  content: string;
  calls: CallPiece[];
  finish: string | null;
}

/** Where calls go, and with which key. */
export interface Endpoint {
  baseUrl: string;
  key: string;
}

interface Scored {
  token: string;
  logprob: number;
}

interface Chunk {
  error?: { message: string };
  choices?: {
    delta: {
      content?: string | null;
      reasoning_content?: string | null;
      tool_calls?: CallPiece[] | null;
    };
    finish_reason: string | null;
    logprobs?: { content: Scored[] | null } | null;
  }[];
}

/** Streams the answer into `onDelta`. Raises Error with the server's words, and ApiError without a connection, which `signal` ends too. */
export async function chat(
  { baseUrl, key }: Endpoint,
  body: ChatBody,
  signal: AbortSignal,
  onDelta: (delta: Delta) => void,
): Promise<void> {
  const request = fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, logprobs: true }),
    credentials: "omit",
    signal,
  });
  const response = await request.catch(() => {
    throw unreachable();
  });
  if (!response.ok || !response.body) throw new Error(await problem(response));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(() => {
      throw new ApiError(0, "cut_off", "The connection ended before the answer did.", "Ask again.");
    });
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
  const { content, reasoning_content: thought, tool_calls: calls } = choice.delta;
  const tokens = tokensOf(choice.logprobs?.content ?? [], (thought ?? "") + (content ?? ""));
  return { tokens, content: content ?? "", calls: calls ?? [], finish: choice.finish_reason };
}

/** An answer that was not streamed, as the one event of a stream. Raises Error with the endpoint's words for a refusal. */
export function wholeAnswer(status: number, answer: Readonly<Record<string, unknown>>): Delta {
  const { error, choices } = answer as {
    error?: { message?: string } | string | null;
    choices?: {
      message?: { content?: string | null; tool_calls?: Omit<CallPiece, "index">[] | null };
      finish_reason?: string | null;
    }[];
  };
  const said = typeof error === "string" ? error : error?.message;
  const choice = choices?.[0];
  if (said || !choice)
    throw new Error(said ?? `The endpoint returned ${String(status)} without an answer.`);
  const content = choice.message?.content ?? "";
  const calls = (choice.message?.tool_calls ?? []).map((call, index) => ({ ...call, index }));
  return {
    tokens: content ? [{ text: content, logprob: undefined, count: 0 }] : [],
    content,
    calls,
    finish: choice.finish_reason ?? null,
  };
}

/**
 * `text` in the tokens that it is of. A token alone is no text where a character has several, where it is a mark such as
 * the end of a turn, or where a part of it comes later: what lies between the tokens that are, is one.
 */
function tokensOf(scored: Scored[], text: string): Token[] {
  if (scored.length === 0) return text ? [{ text, logprob: undefined, count: 0 }] : [];
  let [first, begin] = [0, 0];
  for (let next = scored[first]; next && text.startsWith(next.token, begin); next = scored[first]) {
    begin += next.token.length;
    first += 1;
  }
  let [last, end] = [scored.length, text.length];
  for (
    let next = scored[last - 1];
    next && last > first && text.slice(begin, end).endsWith(next.token);
    next = scored[last - 1]
  ) {
    end -= next.token.length;
    last -= 1;
  }
  const between = scored.slice(first, last);
  const joined = { text: text.slice(begin, end), logprob: sum(between), count: between.length };
  const isEmpty = joined.count === 0 && joined.text === "";
  return [
    ...scored.slice(0, first).map(single),
    ...(isEmpty ? [] : [joined]),
    ...scored.slice(last).map(single),
  ];
}

function single({ token, logprob }: Scored): Token {
  return { text: token, logprob, count: 1 };
}

function sum(scored: Scored[]): number | undefined {
  return scored.length === 0
    ? undefined
    : scored.reduce((before, { logprob }) => before + logprob, 0);
}

async function problem(response: Response): Promise<string> {
  const body = (await response.json().catch(() => null)) as Chunk | null;
  return body?.error?.message ?? `The server returned ${String(response.status)}.`;
}

/** Whether calls go to this server itself. */
export function isOurs(baseUrl: string): boolean {
  return (
    URL.canParse(baseUrl, location.origin) &&
    new URL(baseUrl, location.origin).origin === location.origin
  );
}

/** Its whole answer at once. Raises ApiError, and Error with the endpoint's own words. */
export async function chatOutside(
  { baseUrl, key }: Endpoint,
  body: ChatBody,
  signal: AbortSignal,
): Promise<Delta> {
  const call = {
    base_url: baseUrl,
    api_key: key,
    body: body as unknown as Record<string, unknown>,
  };
  const { status, body: answer } = await unwrap(
    api.POST("/v1/outside-calls", { body: call, fetch: longFetch, signal }),
  );
  return wholeAnswer(status, answer);
}
