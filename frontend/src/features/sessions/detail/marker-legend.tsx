// What the marks of the charts mean: of those that there are.
import type { Marker } from "../../../ui/chart-marks";
import { number } from "../../../ui/format";
import { MARKER_KINDS } from "./run-markers";

export function MarkerLegend({
  markers,
  leftOut,
}: {
  markers: readonly Marker[];
  leftOut: number;
}) {
  const counted = MARKER_KINDS.map((look) => ({
    ...look,
    count: markers.filter(({ kind }) => kind === look.kind).length,
  })).filter(({ count }) => count > 0);
  if (counted.length === 0) return null;
  return (
    <ul
      aria-label="Marks on the charts"
      className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-muted"
    >
      {counted.map(({ kind, name, colour, count }) => (
        <li key={kind} className="inline-flex items-center gap-1.5">
          <span aria-hidden className="h-3 w-0.5" style={{ background: `var(${colour})` }} />
          {name} <span className="tabular-nums">{number(count)}</span>
        </li>
      ))}
      {leftOut > 0 && <li>{number(leftOut)} more are left out, evenly over the run’s length</li>}
    </ul>
  );
}
