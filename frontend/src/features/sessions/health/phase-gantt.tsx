// What the run was doing when: a lane for each state and each phase, with how long the phase may stand still.
import { span, timeWithin } from "../../../ui/format";
import { visible } from "../../../ui/plain-text";
import type { Lane, Lanes } from "./phase-lanes";

const LOOKS: Record<string, string> = {
  ready: "bg-good",
  failed: "bg-bad",
  stopping: "bg-warn",
  suspended: "bg-warn",
};

export function PhaseGantt({ lanes, beginMs, endMs }: Lanes) {
  if (lanes.length === 0) return <p className="p-4 text-muted">Nothing has happened yet.</p>;
  return (
    <div className="px-4 py-3">
      <ul className="space-y-1.5" aria-label="Phases">
        {lanes.map((lane) => (
          <li
            key={`${lane.isState ? "state" : "phase"} ${lane.name}`}
            className="grid grid-cols-2 items-center gap-x-3 sm:grid-cols-[11rem_minmax(0,1fr)_11rem] xl:grid-cols-[11rem_minmax(0,1fr)_21rem]"
          >
            <span className={`text-xs wrap-anywhere ${lane.isState ? "font-medium" : ""}`}>
              {visible(lane.name)}
            </span>
            <Track lane={lane} beginMs={beginMs} lengthMs={Math.max(endMs - beginMs, 1)} />
            <span className="text-right text-xs text-muted tabular-nums">
              {laneText(lane)}
              <span className="sr-only">{lastText(lane, endMs - beginMs)}</span>
            </span>
          </li>
        ))}
      </ul>
      <p className="mt-2 flex justify-between text-xs text-muted tabular-nums sm:mr-[11.75rem] sm:ml-[11.75rem] xl:mr-[21.75rem]">
        <span>{timeText(beginMs, endMs - beginMs)}</span>
        <span>{timeText(endMs, endMs - beginMs)}</span>
      </p>
      {lanes.some((lane) => lane.deadlineS !== null) && (
        <p className="mt-2 text-xs text-muted">
          Limit: without any progress for this long the runtime counts as stuck and is restarted.
          Waiting for your program is not stuck.
        </p>
      )}
    </div>
  );
}

function Track({ lane, beginMs, lengthMs }: { lane: Lane; beginMs: number; lengthMs: number }) {
  const look = lane.isState ? (LOOKS[lane.name] ?? "bg-muted") : "bg-accent";
  return (
    <span
      aria-hidden
      className="relative order-last col-span-2 h-3 rounded-sm bg-sunken sm:order-none sm:col-span-1"
    >
      {lane.stretches.map((one) => (
        <span
          key={one.beginMs}
          title={`${visible(one.title)}: ${timeText(one.beginMs, lengthMs)}, ${span((one.endMs - one.beginMs) / 1000)}`}
          className={`absolute inset-y-0 min-w-0.5 rounded-sm ${look}`}
          style={{
            left: `${String(((one.beginMs - beginMs) / lengthMs) * 100)}%`,
            width: `${String(((one.endMs - one.beginMs) / lengthMs) * 100)}%`,
          }}
        />
      ))}
    </span>
  );
}

function timeText(atMs: number, lengthMs: number): string {
  return timeWithin(new Date(atMs).toISOString(), lengthMs / 1000);
}

/** For those who do not see the lane: when it was so last. */
function lastText({ stretches }: Lane, lengthMs: number): string {
  const last = stretches[stretches.length - 1];
  return last
    ? `, last from ${timeText(last.beginMs, lengthMs)} to ${timeText(last.endMs, lengthMs)}`
    : "";
}

function laneText(lane: Lane): string {
  const longest =
    lane.stretches.length === 1
      ? span(lane.longestS)
      : `${String(lane.stretches.length)} ×, longest ${span(lane.longestS)}`;
  return lane.deadlineS === null ? longest : `${longest} · limit ${span(lane.deadlineS)}`;
}
