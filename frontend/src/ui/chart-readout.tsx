// The values of a chart at the cursor, else each curve's last that is shown: what was measured, each with the place that it is of.
import { useEffect, useState } from "react";
import { axisText, type Axis, type Range } from "./chart-axis";
import { lastReading, readingAt, type Reading, type Series } from "./chart-data";
import { number } from "./format";
import { UserText } from "./plain-text";

interface ReadoutProps {
  x: number[];
  series: readonly Series[];
  axis: Axis;
  /** The index that is read at rest. */
  last: number;
  onHoverRef: { current: (index: number | null) => void };
}

/** It alone is rendered at a movement of the mouse. */
export function Readout({ x, series, axis, last, onHoverRef }: ReadoutProps) {
  const [hovered, setHovered] = useState<number | null>(null);
  useEffect(() => {
    onHoverRef.current = setHovered;
  }, [onHoverRef]);
  const isHovered = hovered !== null && hovered < x.length;
  const at = isHovered ? hovered : last;
  return (
    <span translate="no" className="flex flex-wrap gap-x-3 tabular-nums">
      {series.map((one) => {
        const reading = readingOf(one, at, isHovered);
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

/** The index of the last point that is shown; of all where a zoom shows none. */
export function lastShown(x: readonly number[], zoom: Range | null): number {
  const last = zoom ? x.findLastIndex((place) => place <= zoom.max) : -1;
  return last < 0 ? x.length - 1 : last;
}

/** At an index that is pointed at, or its last up to there; of a curve that is smoothed as it was measured. */
function readingOf({ raw, values }: Series, index: number, isPointed: boolean): Reading | null {
  const measured = raw ?? values;
  return isPointed ? readingAt(measured, index) : lastReading(measured.slice(0, index + 1));
}

/** "0.2 to 0.9", where the point has a range. */
function rangeText({ low, high }: Series, { at }: Reading): string {
  const [from, to] = [low?.[at], high?.[at]];
  return from === null || from === undefined || to === null || to === undefined || from === to
    ? ""
    : `${number(from)} to ${number(to)}`;
}

/** The value of each curve at an index, or its last up to there, as it is read aloud. */
export function spokenText(
  x: readonly number[],
  series: readonly Series[],
  axis: Axis,
  index: number,
  isPointed = false,
): string {
  const said = series.map((one) => {
    const reading = readingOf(one, index, isPointed);
    return `${one.label} ${number(reading?.value)}${reading && reading.at !== index ? ` at ${axisText(axis, x[reading.at])}` : ""}`;
  });
  return `at ${axisText(axis, x[index])}: ${said.join(", ")}`;
}
