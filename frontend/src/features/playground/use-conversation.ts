// One column's conversation while an answer comes, and its end.
import { useEffect, useRef, useState } from "react";
import { chat, chatOutside, isOurs, type Delta } from "./chat-stream";
import {
  answerEntry,
  bodyOf,
  NOTHING_YET,
  withDeltas,
  type Answer,
  type Entry,
  type Settings,
} from "./conversation";
import { open, type Target } from "./targets";

const SHOWN_EACH_MS = 100; // each time all of its tokens are rendered

interface State {
  entries: readonly Entry[];
  /** What comes now; null: nothing. */
  coming: Answer | null;
  error: Error | null;
  /** What was not answered at all, to be asked again; null: nothing. */
  unsent: readonly Entry[] | null;
}

/** `send` adds what is said and has it answered; `stop` ends the answer where it is, which stays. */
export function useConversation() {
  const [state, setState] = useState<State>({
    entries: [],
    coming: null,
    error: null,
    unsent: null,
  });
  const current = useRef<AbortController>(undefined);
  useEffect(() => () => current.current?.abort(), []);

  async function send(target: Target, said: readonly Entry[], settings: Settings) {
    if (state.coming) return;
    const before = state.entries;
    const entries = [...before, ...said];
    const controller = (current.current = new AbortController());
    const began = performance.now();
    let answer = NOTHING_YET;
    let waiting: Delta[] = [];
    const show = () => {
      answer = withDeltas(answer, waiting);
      waiting = [];
      setState({ entries, coming: answer, error: null, unsent: null });
    };
    show();
    const timer = setInterval(show, SHOWN_EACH_MS);
    let error: Error | null = null;
    try {
      await ask(target, bodyOf(settings, entries), controller.signal, (delta) =>
        waiting.push(delta),
      );
    } catch (problem) {
      if (!controller.signal.aborted)
        error = problem instanceof Error ? problem : new Error(String(problem));
    }
    clearInterval(timer);
    show();
    const done = { ...answer, seconds: (performance.now() - began) / 1000 };
    const isAnswer = done.tokens.length > 0 || done.calls.length > 0 || done.finish !== null;
    setState({
      entries: isAnswer ? [...entries, answerEntry(done)] : before,
      coming: null,
      error,
      unsent: isAnswer ? null : said,
    });
  }

  return { ...state, send, stop: () => current.current?.abort() };
}

/** Gives up what it opened, also where the page is closed in the middle of it. */
async function ask(
  target: Target,
  body: ReturnType<typeof bodyOf>,
  signal: AbortSignal,
  onDelta: (delta: Delta) => void,
): Promise<void> {
  const access = await open(target);
  // An episode that cannot be given up ends by its own deadline: that is no error of the answer.
  const release = () => access.release().catch(() => undefined);
  addEventListener("pagehide", release);
  try {
    const whole = { ...body, model: access.model };
    if (isOurs(access.baseUrl)) await chat(access, whole, signal, onDelta);
    else onDelta(await chatOutside(access, whole, signal));
  } finally {
    removeEventListener("pagehide", release);
    await release();
  }
}
