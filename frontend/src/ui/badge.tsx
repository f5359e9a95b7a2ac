// A short word with a colour that agrees with it; the word alone carries the meaning.
import type { ReactNode } from "react";

export type Tone = "neutral" | "busy" | "good" | "warn" | "bad";

const TONES: Record<Tone, string> = {
  neutral: "bg-sunken text-muted",
  busy: "bg-accent-soft text-accent",
  good: "bg-good-soft text-good",
  warn: "bg-warn-soft text-warn",
  bad: "bg-bad-soft text-bad",
};

export function Badge({ tone, children }: { tone: Tone; children: ReactNode }) {
  return (
    <span
      className={`inline-flex items-center gap-1.5 rounded-full px-2 py-0.5 text-xs font-medium whitespace-nowrap ${TONES[tone]}`}
    >
      <span
        aria-hidden
        className={`size-1.5 rounded-full bg-current ${tone === "busy" ? "animate-pulse" : ""}`}
      />
      {children}
    </span>
  );
}
