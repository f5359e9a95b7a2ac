// One run of a timeline: context, grey and cut where it is long, or sampled tokens, each a span with its colour.
import { memo, useState } from "react";
import type { TokenRun } from "../../../api/types";
import { number } from "../../../ui/format";
import { beginning, visible } from "../../../ui/plain-text";
import { UserText } from "../../../ui/user-text";
import { heatOf, type Measure, type Scale } from "./token-heat";

const CONTEXT_CHARACTERS = 2_000;
const BLOCK = "whitespace-pre-wrap wrap-anywhere font-mono text-xs leading-5";

export function CutText({ text, most = CONTEXT_CHARACTERS, className = "" }: { text: string; most?: number; className?: string }) {
  const [whole, setWhole] = useState(false);
  const cut = whole ? null : beginning(text, most);
  return (
    <span className={className}>
      {visible(cut ?? text)}
      {cut !== null && (
        <button
          type="button"
          className="ml-1 rounded bg-sunken px-1.5 font-sans text-accent hover:underline"
          onClick={() => {
            setWhole(true);
          }}
        >
          show all {number(text.length)} characters
        </button>
      )}
    </span>
  );
}

export function ContextRun({ run }: { run: TokenRun }) {
  return (
    <div className={`${BLOCK} border-l-2 border-line pl-3 text-muted`}>
      <CutText text={run.text} />
    </div>
  );
}

interface SampledProps {
  run: TokenRun;
  /** "call 2 · solver". */
  title: string;
  measure: Measure;
  scale: Scale;
  /** Position in the timeline of the chosen token, if it is in this run. */
  chosen: number | null;
}

/** Spans have their position in `data-token`: the page listens once for all of them. */
export const SampledRun = memo(function SampledRun({ run, title, measure, scale, chosen }: SampledProps) {
  return (
    <div className="border-l-2 border-accent pl-3">
      <p className="mb-0.5 text-xs font-medium text-accent">
        <UserText text={title} />
        <span className="font-normal text-muted">
          {" "}
          {number(run.tokens)} tokens{run.advantage !== null && ` · advantage ${number(run.advantage)}`}
        </span>
      </p>
      <div className={BLOCK}>
        {run.pieces.map((piece, at) => (
          <span key={at} data-token={run.start + at} data-heat={heatOf(run, at, measure, scale)} data-chosen={run.start + at === chosen || undefined}>
            {pieceText(piece, run.split_bytes[String(at) as unknown as number])}
          </span>
        ))}
      </div>
    </div>
  );
});

/** A token's text; one that is only a part of a character shows its bytes. */
function pieceText(piece: string, raw: string | undefined): string {
  if (piece === "" && raw !== undefined) return `⟨${raw}⟩`;
  return visible(piece);
}
