// The calls of an episode as conversations: who said what, what was thought, which tools were called and what they gave back.
import type { TrajectoryCall } from "../../../api/types";
import { readable } from "../../../ui/cut-text";

export type Part =
  | { kind: "text"; text: string }
  | { kind: "thoughts"; text: string }
  | { kind: "call"; name: string; text: string }
  | { kind: "result"; text: string }
  /** What has no text, such as a picture: its type. */
  | { kind: "other"; text: string };

export interface Turn {
  key: string;
  role: string;
  parts: Part[];
  /** Of an answer: what is known of how it came about, "call 2, 31 tokens, cut off by its length". */
  note: string;
  isSampled: boolean;
}

interface Thread {
  key: string;
  agent: string | null;
  /** Where it leaves another one; empty: it is one of its own. */
  origin: string;
  turns: Turn[];
  /** The call whose answer is its last turn. */
  last: string;
}

type Message = Record<string, unknown>;

/** A thread for each sequence of calls that continue each other; where two continue the same call, one for the second. */
export function threadsOf(calls: readonly TrajectoryCall[]): Thread[] {
  const threads: Thread[] = [];
  calls.forEach((call, at) => {
    const name = `call ${String(at + 1)}`;
    const before = calls.findIndex(({ id }) => id === call.continues);
    let thread =
      call.continues === null ? undefined : threads.find(({ last }) => last === call.continues);
    if (!thread) {
      const origin = before < 0 ? "" : `Another way on from call ${String(before + 1)}`;
      thread = { key: call.id, agent: call.agent, origin, turns: [], last: call.id };
      threads.push(thread);
    }
    const answered = thread.turns.slice(
      thread.turns.findLastIndex(({ isSampled }) => !isSampled) + 1,
    );
    call.messages.forEach((message, index) => {
      const turn = turnOf(message, `${call.id} ${String(index)}`);
      // The client sends back what it was answered: it is here once.
      if (
        turn.role === "assistant" &&
        index === 0 &&
        answered.some(({ parts }) => JSON.stringify(parts) === JSON.stringify(turn.parts))
      )
        return;
      thread.turns.push(turn);
    });
    for (const answer of call.answers) {
      const turn = turnOf(answer.message, `${call.id} answer ${String(answer.index)}`);
      const several =
        call.answers.length > 1
          ? `answer ${String(answer.index + 1)} of ${String(call.answers.length)}`
          : "";
      const cut = answer.finish_reason === "length" ? "cut off by its length" : "";
      thread.turns.push({
        ...turn,
        role: "assistant",
        isSampled: true,
        note: [name, several, `${answer.tokens.toLocaleString("en")} tokens`, cut]
          .filter(Boolean)
          .join(", "),
      });
    }
    if (call.answers.length === 0)
      thread.turns.push({
        key: `${call.id} none`,
        role: "assistant",
        parts: [],
        isSampled: true,
        note: `${name}, ${call.status === "cancelled" ? "cancelled" : "no answer"}`,
      });
    thread.last = call.id;
  });
  return threads;
}

function turnOf(message: Message, key: string): Turn {
  const role = typeof message.role === "string" ? message.role : "unknown";
  return {
    key,
    role,
    parts: partsOf(message, role),
    note: noteOf(message, role),
    isSampled: false,
  };
}

function noteOf({ name }: Message, role: string): string {
  return role === "tool" && typeof name === "string" ? name : "";
}

function partsOf(message: Message, role: string): Part[] {
  const thought = [message.reasoning_content, message.reasoning, message.thinking].find(
    (text) => typeof text === "string" && text !== "",
  );
  const parts: Part[] =
    typeof thought === "string" ? [{ kind: "thoughts", text: thought.trim() }] : [];
  for (const part of contentOf(message.content)) {
    if (part.kind !== "text") parts.push(part);
    else if (role === "tool" || role === "function")
      parts.push({ kind: "result", text: readable(part.text) });
    else if (role === "assistant") parts.push(...withThoughts(part.text));
    else parts.push(part);
  }
  const calls = [
    ...(Array.isArray(message.tool_calls) ? (message.tool_calls as unknown[]) : []),
    message.function_call,
  ].filter(Boolean);
  for (const call of calls as {
    name?: unknown;
    arguments?: unknown;
    function?: { name?: unknown; arguments?: unknown };
  }[]) {
    const { name, arguments: given } = call.function ?? call;
    parts.push({
      kind: "call",
      name: typeof name === "string" ? name : "unknown",
      text: readable(given),
    });
  }
  return parts;
}

/** A content is a text, or parts of which some have one. */
function contentOf(content: unknown): Part[] {
  if (typeof content === "string") return content === "" ? [] : [{ kind: "text", text: content }];
  if (!Array.isArray(content))
    return content === null || content === undefined
      ? []
      : [{ kind: "text", text: readable(content) }];
  return (content as ({ type?: unknown; text?: unknown } | null)[]).map((part) =>
    typeof part?.text === "string"
      ? { kind: "text", text: part.text }
      : { kind: "other", text: typeof part?.type === "string" ? part.type : readable(part) },
  );
}

const THOUGHTS = /^\s*<think>([\s\S]*?)(?:<\/think>|$)/;

/** The text of an answer, with what it thinks first apart: templates leave that in the text where no parser knows it. */
function withThoughts(text: string): Part[] {
  const [all, thought = ""] = THOUGHTS.exec(text) ?? [""];
  const rest = text.slice(all.length).trim();
  const parts: Part[] = [
    { kind: "thoughts", text: thought.trim() },
    { kind: "text", text: all ? rest : text },
  ];
  return parts.filter((part) => part.text !== "");
}

/** All of a turn, to be copied. */
export function turnText({ parts }: Turn): string {
  return parts
    .map((part) => (part.kind === "call" ? `${part.name}(${part.text})` : part.text))
    .join("\n\n");
}
