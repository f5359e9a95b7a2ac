// Restarts, faults and stacks of a run.
import { CutText } from "../../../ui/cut-text";
import { dateTime, timeOfDay } from "../../../ui/format";
import { Panel } from "../../../ui/panel";
import { visible } from "../../../ui/plain-text";
import type { Trouble } from "./troubles";

/** Of all threads, in most cases. */
const STACKS_CHARACTERS = 50_000;

export function TroublesPanel({ troubles }: { troubles: readonly Trouble[] }) {
  return (
    <Panel title="Restarts and faults">
      {troubles.length === 0 && <p className="p-4 text-muted">None.</p>}
      <ol className="max-h-96 divide-y divide-line overflow-y-auto">
        {troubles.map((one) => (
          <li key={one.cursor} className="px-4 py-2">
            <p className="flex flex-wrap items-baseline gap-x-3">
              <time
                dateTime={one.at}
                title={dateTime(one.at)}
                className="text-xs text-muted tabular-nums"
              >
                {timeOfDay(one.at)}
              </time>
              <span className="font-medium">{one.title}</span>
              <span className="min-w-0 text-muted wrap-anywhere">{visible(one.text)}</span>
            </p>
            {one.trace && (
              <details className="mt-1 text-xs">
                <summary className="cursor-pointer text-muted">Stacks</summary>
                <pre tabIndex={0} className="mt-1 max-h-96 overflow-auto font-mono">
                  <CutText text={one.trace} most={STACKS_CHARACTERS} />
                </pre>
              </details>
            )}
          </li>
        ))}
      </ol>
    </Panel>
  );
}
