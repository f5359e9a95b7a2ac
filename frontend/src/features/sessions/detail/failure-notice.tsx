// Why a run failed and what to do, with the last lines of its runtime behind it: the newest, which tell most, are in sight.
import { useEffect, useRef } from "react";
import type { Session } from "../../../api/types";
import { CutText } from "../../../ui/cut-text";
import { Notice } from "../../../ui/notice";
import { visible } from "../../../ui/plain-text";

const CAUSE_CHARACTERS = 1_000;
const LOG_CHARACTERS = 20_000;

export function FailureNotice({ failure }: { failure: NonNullable<Session["failure"]> }) {
  const { title, rest } = causeOf(failure);
  return (
    <Notice tone="bad" title={`Failed: ${visible(title)}`}>
      {rest && (
        <p
          className="max-h-60 overflow-y-auto text-xs whitespace-pre-wrap wrap-anywhere"
          tabIndex={0}
        >
          <CutText text={rest} most={CAUSE_CHARACTERS} />
        </p>
      )}
      {failure.hint && <p className="mt-1 wrap-anywhere">{visible(failure.hint)}</p>}
      {failure.log.length > 0 && <LastLines lines={failure.log} />}
    </Notice>
  );
}

function LastLines({ lines }: { lines: readonly string[] }) {
  const block = useRef<HTMLPreElement>(null);
  const showEnd = () => {
    if (block.current) block.current.scrollTop = block.current.scrollHeight;
  };
  useEffect(showEnd, [lines]);
  return (
    <details className="mt-2 text-xs" onToggle={showEnd}>
      <summary className="cursor-pointer text-muted">
        The last {lines.length} lines of its runtime
      </summary>
      <pre
        ref={block}
        tabIndex={0}
        aria-label="The last lines of its runtime"
        className="mt-1 max-h-60 overflow-auto font-mono"
      >
        <CutText text={lines.join("\n")} most={LOG_CHARACTERS} />
      </pre>
    </details>
  );
}

/** Its first line in the title; of a cause of many lines the others below it. */
export function causeOf({ code, cause }: Pick<NonNullable<Session["failure"]>, "code" | "cause">): {
  title: string;
  rest: string;
} {
  const [title = "", ...rest] = cause.trim().split("\n");
  return { title: title || code.replaceAll("_", " "), rest: rest.join("\n") };
}
