// The values of a chart at the cursor, else each curve's last that is shown: what was measured, each with the place that it is of.
import { useEffect, useState } from "react";
import { axisText, type Axis } from "./chart-axis";
import { lastReading, readingAt, type Reading, type Series } from "./chart-data";
import type { Range } from "./chart-zoom";
import { number } from "./format";
import { UserText } from "./user-text";

interface ReadoutProps {
  x: number[];
  series: readonly Series[];
  axis: Axis;
  zoom?: Range | null;
  onHoverRef: { current: (index: number | null) => void };
}

/** It alone is rendered at a movement of the mouse. */
export function Readout({ x, series, axis, zoom = null, onHoverRef }: ReadoutProps) {
  const [hovered, setHovered] = useState<number | null>(null);
  useEffect(() => {
    onHoverRef.current = setHovered;
  }, [onHoverRef]);
  const isHovered = hovered !== null && hovered < x.length;
  const at = isHovered ? hovered : lastShown(x, zoom);
  return (
    <span translate="no" className="flex flex-wrap gap-x-3 tabular-nums">
      {series.map((one) => {
        const reading = isHovered ? hoveredOf(one, at) : restingOf(one, at);
        return (
          <span key={one.label} className="inline-flex items-center gap-1">
            <span
              aria-hidden
              className="h-0.5 w-2.5 rounded"
              style={{ background: `var(${one.colour})` }}
            />
            {series.length > 1 && (
              <UserText className="max-w-56 wrap-anywhere text-muted" text={one.label} />
            )}
            <span className="font-medium">{number(reading?.value)}</span>
            {reading && <span className="text-muted">{rangeText(one, reading)}</span>}
            {reading && reading.at !== at && (
              <span className="text-muted">({axisText(axis, x[reading.at])})</span>
            )}
          </span>
        );
      })}
      <span className="text-muted">{axisText(axis, x[at])}</span>
    </span>
  );
}

/** Of a curve that is smoothed as it was measured; null after its end. */
function hoveredOf({ raw, values }: Series, index: number): Reading | null {
  return readingAt(raw ?? values, index);
}

/** Its last up to an index. */
function restingOf({ raw, values }: Series, last: number): Reading | null {
  return lastReading((raw ?? values).slice(0, last + 1));
}

/** The index of the last point that is shown; of all where a zoom shows none. */
function lastShown(x: readonly number[], zoom: Range | null): number {
  const last = zoom ? x.findLastIndex((place) => place <= zoom.max) : -1;
  return last < 0 ? x.length - 1 : last;
}

/** "0.2 to 0.9", where the point has a range. */
function rangeText({ low, high }: Series, { at }: Reading): string {
  const [from, to] = [low?.[at], high?.[at]];
  return from === null || from === undefined || to === null || to === undefined || from === to
    ? ""
    : `${number(from)} to ${number(to)}`;
}

/** The value of each curve at an index, else its last that is shown, as it is read aloud. */
export function spokenText(
  x: readonly number[],
  series: readonly Series[],
  axis: Axis,
  zoom: Range | null,
  index: number | null = null,
): string {
  const at = index ?? lastShown(x, zoom);
  const said = series.map((one) => {
    const reading = index === null ? restingOf(one, at) : hoveredOf(one, at);
    return `${one.label} ${number(reading?.value)}${reading && reading.at !== at ? ` at ${axisText(axis, x[reading.at])}` : ""}`;
  });
  return `at ${axisText(axis, x[at])}: ${said.join(", ")}`;
}
