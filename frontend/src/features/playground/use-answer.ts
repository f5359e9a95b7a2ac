// One column's answer while it comes, and its end.
import { useEffect, useRef, useState } from "react";
import type { Session } from "../../api/types";
import type { ChatBody } from "../../ui/call-snippets";
import { chat, type Delta, type Token } from "./chat-stream";
import { open } from "./targets";

export interface Answer {
  tokens: Token[];
  finish: string | null;
  error: Error | null;
  running: boolean;
  seconds: number | null;
}

const NONE: Answer = { tokens: [], finish: null, error: null, running: false, seconds: null };
const SHOWN_EACH_MS = 100; // each time all of its tokens are rendered

/** `ask` sends a question and forgets the answer before it; `stop` ends it where it is. */
export function useAnswer() {
  const [answer, setAnswer] = useState(NONE);
  const current = useRef<AbortController>(undefined);
  useEffect(() => () => current.current?.abort(), []);

  async function ask(session: Session, question: Omit<ChatBody, "model">) {
    current.current?.abort();
    const controller = (current.current = new AbortController());
    const began = performance.now();
    const change = (next: (before: Answer) => Answer) => {
      if (current.current === controller) setAnswer(next);
    };
    setAnswer({ ...NONE, running: true });
    let waiting: Delta[] = [];
    const show = () => {
      const deltas = waiting;
      waiting = [];
      if (deltas.length > 0) change((before) => withDeltas(before, deltas));
    };
    const timer = setInterval(show, SHOWN_EACH_MS);
    let error: Error | null = null;
    try {
      await askOnce(session, question, controller.signal, (delta) => waiting.push(delta));
    } catch (problem) {
      if (!controller.signal.aborted) error = problem instanceof Error ? problem : new Error(String(problem));
    }
    clearInterval(timer);
    show();
    change((before) => ({ ...before, error, running: false, seconds: (performance.now() - began) / 1000 }));
  }

  return { answer, ask, stop: () => current.current?.abort() };
}

/** Gives up what it opened, also where the page is closed in the middle of it. */
async function askOnce(session: Session, question: Omit<ChatBody, "model">, signal: AbortSignal, onDelta: (delta: Delta) => void): Promise<void> {
  const access = await open(session);
  // An episode that cannot be given up ends by its own deadline: that is no error of the answer.
  const release = () => access.release().catch(() => undefined);
  addEventListener("pagehide", release);
  try {
    await chat(access.key, { ...question, model: access.model }, signal, onDelta);
  } finally {
    removeEventListener("pagehide", release);
    await release();
  }
}

export function withDeltas(answer: Answer, deltas: Delta[]): Answer {
  const finish = deltas.reduce<string | null>((before, delta) => delta.finish ?? before, answer.finish);
  return { ...answer, tokens: [...answer.tokens, ...deltas.flatMap((delta) => delta.tokens)], finish };
}
