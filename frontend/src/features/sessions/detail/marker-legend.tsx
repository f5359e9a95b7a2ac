// What the marks of the charts mean: of those that there are.
import type { Marker } from "../../../ui/chart-marks";
import { number } from "../../../ui/format";
import { MARKER_KINDS } from "./run-markers";

export function MarkerLegend({ markers, leftOut }: { markers: readonly Marker[]; leftOut: number }) {
  const counted = MARKER_KINDS.map((look) => ({ ...look, count: markers.filter(({ kind }) => kind === look.kind).length })).filter(({ count }) => count > 0);
  if (counted.length === 0) return null;
  return (
    <ul aria-label="Marks on the charts" className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-muted">
      {counted.map(({ kind, letter, name, colour, count }) => (
        <li key={kind} className="inline-flex items-center gap-1.5">
          <span aria-hidden className="grid size-4 place-items-center rounded-sm bg-surface text-[10px] leading-none font-bold ring-1" style={{ color: `var(${colour})` }}>
            {letter}
          </span>
          {name} <span className="tabular-nums">{number(count)}</span>
        </li>
      ))}
      {leftOut > 0 && <li>{number(leftOut)} more are left out, evenly over the run’s length</li>}
    </ul>
  );
}
