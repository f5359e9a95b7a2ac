// One column's answer while it comes, and its end.
import { useEffect, useRef, useState } from "react";
import type { Session } from "../../api/types";
import type { ChatBody } from "../../ui/call-snippets";
import { chat, type Token } from "./chat-stream";
import { open } from "./targets";

export interface Answer {
  tokens: Token[];
  finish: string | null;
  error: Error | null;
  running: boolean;
  seconds: number | null;
}

const NONE: Answer = { tokens: [], finish: null, error: null, running: false, seconds: null };

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
    let error: Error | null = null;
    try {
      const access = await open(session);
      try {
        await chat(access.key, { ...question, model: access.model }, controller.signal, (delta) => {
          change((before) => ({ ...before, tokens: [...before.tokens, ...delta.tokens], finish: delta.finish ?? before.finish }));
        });
      } finally {
        await access.release();
      }
    } catch (problem) {
      if (!controller.signal.aborted) error = problem instanceof Error ? problem : new Error(String(problem));
    }
    change((before) => ({ ...before, error, running: false, seconds: (performance.now() - began) / 1000 }));
  }

  return { answer, ask, stop: () => current.current?.abort() };
}
