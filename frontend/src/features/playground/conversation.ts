// A conversation with one model: its messages as they are sent, and of each answer its tokens and how it ended.
import type { ChatBody, ChatMessage, ToolCall } from "../../ui/call-snippets";
import type { Delta, Token } from "./chat-stream";

export interface Answer {
  tokens: Token[];
  content: string;
  calls: ToolCall[];
  finish: string | null;
  seconds: number | null;
}

export interface Entry {
  message: ChatMessage;
  /** Of what the model said here. */
  answer?: Answer;
}

/** What is the same for each turn. */
export interface Settings {
  system: string;
  temperature: number;
  max_tokens: number;
  tools: unknown[];
}

export const NOTHING_YET: Answer = {
  tokens: [],
  content: "",
  calls: [],
  finish: null,
  seconds: null,
};

export function withDeltas(answer: Answer, deltas: readonly Delta[]): Answer {
  const finish = deltas.reduce<string | null>(
    (before, delta) => delta.finish ?? before,
    answer.finish,
  );
  const calls = answer.calls.map((call) => ({ ...call, function: { ...call.function } }));
  for (const { index, id, function: said } of deltas.flatMap((delta) => delta.calls)) {
    const call = (calls[index] ??= {
      id: "",
      type: "function",
      function: { name: "", arguments: "" },
    });
    call.id ||= id ?? "";
    call.function.name ||= said?.name ?? "";
    call.function.arguments += said?.arguments ?? "";
  }
  const content = answer.content + deltas.map((delta) => delta.content).join("");
  return {
    ...answer,
    tokens: [...answer.tokens, ...deltas.flatMap((delta) => delta.tokens)],
    content,
    calls,
    finish,
  };
}

/** The answer as the next request sends it back: without its thoughts. */
export function answerEntry(answer: Answer): Entry {
  const { content, calls } = answer;
  const message: ChatMessage = {
    role: "assistant",
    content: content || (calls.length > 0 ? null : ""),
  };
  return { message: calls.length > 0 ? { ...message, tool_calls: calls } : message, answer };
}

/** The calls of the last answer, which wait for what their tools give back. */
export function waitingCalls(entries: readonly Entry[]): ToolCall[] {
  return entries[entries.length - 1]?.message.tool_calls ?? [];
}

/** What tools gave back, by the ids of their calls; nothing typed is an empty text. */
export function resultEntries(
  calls: readonly ToolCall[],
  typed: Readonly<Record<string, string>>,
): Entry[] {
  return calls.map(({ id }) => ({
    message: { role: "tool", content: typed[id] ?? "", tool_call_id: id },
  }));
}

export function bodyOf(
  { system, tools, ...sampling }: Settings,
  entries: readonly Entry[],
): Omit<ChatBody, "model"> {
  const first = system ? [{ role: "system", content: system }] : [];
  return {
    messages: [...first, ...entries.map(({ message }) => message)],
    ...sampling,
    ...(tools.length > 0 ? { tools } : {}),
  };
}

/** The tools that were typed, as a list of JSON; a function by itself is one, and nothing is none. Raises Error. */
export function toolsOf(typed: string): unknown[] {
  if (typed.trim() === "") return [];
  const given: unknown = JSON.parse(typed);
  return (Array.isArray(given) ? given : [given]).map((tool: unknown) => {
    if (typeof tool !== "object" || tool === null) throw new Error("Each tool is an object.");
    return "type" in tool && "function" in tool ? tool : { type: "function", function: tool };
  });
}
