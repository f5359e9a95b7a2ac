// A word of the field with its explanation: shown to the pointer, the keyboard and the finger, and read out as its description.
import { useId, useState, type ReactNode, type SyntheticEvent } from "react";
import { createPortal } from "react-dom";
import { WORDS } from "./words";

type WordKey = keyof typeof WORDS;

/** Which words of the pages are explained: by the entry of words.ts, as they stand there. */
const WRITTEN: Record<WordKey, string> = {
  reward:
    "Reward|Rewards|Reward, mean|Reward, last|Reward, best|Rewards by agent|Rewards by call|Mean reward",
  episode: "Episode|Episodes|Last episodes",
  task: "Task|Tasks",
  step: "Step|Steps|Optimizer steps|Trained in",
  batch: "Batches|Tasks × attempts",
  call: "Call|Calls",
  runtime: "Runtime|Runtimes|Warm runtimes",
  max_tokens: "Max tokens",
  token: "Token|Sampled tokens|Tokens",
  lora: "Trains",
  checkpoint: "Checkpoints|Stored checkpoints",
  evaluation: "Evaluations|Evaluation, last",
  spread: "Spread",
  advantage: "Advantage|Advantages",
  ratio: "Ratio|Ratios",
  loss_part: "Part of the loss|Share of the loss",
  loss: "Loss|Loss by token",
  kl_engine: "KL|KL engine to trainer|KL of the engine",
  kl_step: "KL within the step",
  kl_reference: "KL to the reference",
  gap: "Gap of engine and trainer|Largest gap|Tokens more than 1 nat apart",
  left_out: "Tokens left out for their gap",
  repeated: "Repeated prefixes",
  entropy: "Entropy",
  entropy_weight: "Weight of the entropy",
  kl_weight: "Weight of the KL term",
  expert_load: "Busiest expert over the mean",
  router_entropy: "Entropy of the routers",
  routing_differs: "Replayed experts that differ",
  length: "Answer length|Completion length|Length",
  cut_off: "Cut off|Answers cut off",
  clipped: "Clipped|Clipped tokens",
  grad_norm: "Gradient norm|Grad norm",
  learning_rate: "Learning rate",
  updates: "Updates",
  distinct: "Spread of the answers",
  grammars: "Required form lost",
  group: "Groups",
  equal: "Equal groups",
  staleness: "Staleness",
  policy: "Samples",
  version: "Policy version|Version|Versions",
  step_time: "Step time|Training time|Took|Rollout, s|Training, s",
  speed: "Tokens per second",
  fate: "Fate",
  timeline: "Timelines|Merging",
  drift: "Drift",
  logprob: "Mean log-prob.|Log-probability|Probability",
  raw_logprob: "Raw log-probability|Raw probability",
  trainer_logprob: "Trainer’s log-probability",
  change: "… after the step|Change by the step",
  tokens_trained: "Tokens trained",
  tokens_computed: "Tokens computed",
};

const KEYS = new Map(
  Object.entries(WRITTEN).flatMap(([key, words]) =>
    words.split("|").map((word) => [word, key as WordKey]),
  ),
);

/** The key of the entry; null for a word that needs none. */
export function wordKey(text: string): WordKey | null {
  return KEYS.get(text) ?? null;
}

/** What a button of the word has to have, and the explanation beside it; nothing of a word that needs none. */
export function useWord(text: string): { props: object; tip: ReactNode } {
  const id = useId();
  const [place, setPlace] = useState<DOMRect | null>(null);
  const key = wordKey(text);
  if (key === null) return { props: {}, tip: null };
  const show = (event: SyntheticEvent<HTMLElement>) => {
    setPlace(event.currentTarget.getBoundingClientRect());
  };
  const hide = () => {
    setPlace(null);
  };
  const props = {
    "data-word": key,
    "aria-describedby": place ? id : undefined,
    onPointerEnter: show,
    onPointerLeave: hide,
    onFocus: show,
    onBlur: hide,
    onKeyDown: (event: { key: string }) => {
      if (event.key === "Escape") hide();
    },
  };
  const tip = place && createPortal(<WordTip id={id} name={key} place={place} />, document.body);
  return { props, tip };
}

/** `text` alone where it is none of the explained ones. */
export function Word({ text }: { text: string }) {
  const { props, tip } = useWord(text);
  if (wordKey(text) === null) return text;
  const show = (event: SyntheticEvent<HTMLElement>) => {
    event.currentTarget.focus(); // a finger has no pointer that stays
  };
  return (
    <>
      <button
        type="button"
        {...props}
        onClick={show}
        className="rounded text-left [font:inherit] text-inherit underline decoration-muted/60 decoration-dotted underline-offset-3 cursor-help print:no-underline"
      >
        {text}
      </button>
      {tip}
    </>
  );
}

const WIDTH = 320;
const ROOM = 160;
const EDGE = 8;

/** Below the word, or above where there is no room. */
function WordTip({ id, name, place }: { id: string; name: WordKey; place: DOMRect }) {
  const { what, bad } = WORDS[name];
  const left = Math.max(EDGE, Math.min(place.left, window.innerWidth - WIDTH - EDGE));
  const isAbove = place.bottom + ROOM > window.innerHeight && place.top > ROOM;
  return (
    <div
      id={id}
      role="tooltip"
      className="pointer-events-none fixed z-30 max-w-[calc(100vw-1rem)] rounded-md border border-line bg-raised p-3 text-xs font-normal shadow-lg print:hidden"
      style={{
        left,
        width: WIDTH,
        ...(isAbove
          ? { bottom: window.innerHeight - place.top + EDGE }
          : { top: place.bottom + EDGE }),
      }}
    >
      <p>{what}</p>
      {bad && (
        <p className="mt-1.5">
          <span className="font-semibold">Bad when: </span>
          {bad}
        </p>
      )}
    </div>
  );
}
