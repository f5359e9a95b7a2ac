// One run of a timeline: context, grey and cut where it is long, or sampled tokens, each a span with its colour.
import { memo, Fragment } from "react";
import type { TokenRun } from "../../../api/types";
import { CutText } from "../../../ui/cut-text";
import { number } from "../../../ui/format";
import { visible, UserText } from "../../../ui/plain-text";
import { heatOf, type Measure, type Scale } from "./token-heat";

const BLOCK =
  "[unicode-bidi:plaintext] whitespace-pre-wrap wrap-anywhere font-mono text-xs leading-5";

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
export const SampledRun = memo(function SampledRun({
  run,
  title,
  measure,
  scale,
  chosen,
}: SampledProps) {
  const shown = chosen === null ? null : wholeAt(run, chosen - run.start);
  return (
    <div className="border-l-2 border-accent pl-3">
      <p className="mb-0.5 text-xs font-medium text-accent">
        <UserText text={title} />
        <span className="font-normal text-muted">
          {" "}
          {number(run.tokens)} tokens
          {run.advantage !== null && ` · advantage ${number(run.advantage)}`}
        </span>
      </p>
      <div className={BLOCK} translate="no">
        {run.pieces.map((piece, at) => (
          <span
            key={at}
            data-token={run.start + at}
            data-heat={heatOf(run, at, measure, scale)}
            data-chosen={at === shown || undefined}
          >
            <Piece text={textAt(run, at) ?? visible(piece)} />
          </span>
        ))}
      </div>
    </div>
  );
});

/** The token that has the text of a character of which this one has some bytes: itself, or one after it. */
export function wholeAt(run: Pick<TokenRun, "pieces" | "split_bytes">, at: number): number {
  let whole = at;
  while (
    run.pieces[whole] === "" &&
    run.split_bytes[whole] !== undefined &&
    whole < run.pieces.length - 1
  )
    whole += 1;
  return whole;
}

/** Of a token that has a part of a character alone: nothing where the whole one follows, else its bytes. Null of others. */
export function textAt(run: Pick<TokenRun, "pieces" | "split_bytes">, at: number): string | null {
  const raw = run.split_bytes[at];
  if (run.pieces[at] !== "" || raw === undefined) return null;
  const whole = wholeAt(run, at);
  return run.pieces[whole] !== "" && run.split_bytes[whole] !== undefined ? "" : `⟨${raw}⟩`;
}

/** The text of one sampled token. A line feed has no width that could carry its colour: a mark stands at its place (styles.css). */
export function Piece({ text }: { text: string }) {
  if (!text.includes("\n")) return text;
  return text.split("\n").map((line, at) => (
    <Fragment key={at}>
      {at > 0 && (
        <>
          <span data-newline />
          {"\n"}
        </>
      )}
      {line}
    </Fragment>
  ));
}
