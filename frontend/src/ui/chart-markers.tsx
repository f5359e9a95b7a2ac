// Ticks under the axis of a chart at what happened there: each says what at the mouse, and by keyboard.
import { useState, type KeyboardEvent } from "react";
import { Link } from "react-router";
import { visible } from "./plain-text";

export interface Marker {
  /** Unlike that of any other. */
  key: string;
  kind: string;
  /** Where on the axis. */
  x: number;
  /** CSS variable of its colour. */
  colour: string;
  text: string;
  to: string;
}

/** The plotted part of a chart in CSS pixels of its box, and what of the axis it shows. */
export interface Place {
  left: number;
  top: number;
  width: number;
  height: number;
  min: number;
  max: number;
}

interface Cluster {
  /** Right of the plotted part's left edge. */
  px: number;
  markers: readonly [Marker, ...Marker[]];
}

const APART_PX = 10; // closer ticks could not be told apart, nor pointed at
const MOST_LINES = 8;

/** From left to right; what is outside of the shown range is left out. */
export function clustersOf(markers: readonly Marker[], { min, max, width }: Place): Cluster[] {
  if (!(max > min)) return [];
  const clusters: { px: number; markers: [Marker, ...Marker[]] }[] = [];
  for (const marker of [...markers].sort((a, b) => a.x - b.x)) {
    if (marker.x < min || marker.x > max) continue;
    const px = ((marker.x - min) / (max - min)) * width;
    const last = clusters[clusters.length - 1];
    if (last && px - last.px < APART_PX) last.markers.push(marker);
    else clusters.push({ px, markers: [marker] });
  }
  return clusters;
}

/** The colours of what happened in one place, each kind once. */
export function coloursOf(markers: readonly Marker[]): string[] {
  return [...new Set(markers.map(({ colour }) => colour))];
}

/** A line for each mark, the first of many. */
export function markersText(markers: readonly Marker[]): string {
  const lines = markers.slice(0, MOST_LINES).map(({ text }) => text);
  if (markers.length > MOST_LINES) lines.push(`and ${String(markers.length - MOST_LINES)} more`);
  return lines.join("\n");
}

interface ChartMarkersProps {
  markers: readonly Marker[];
  place: Place;
  /** Whether the ticks are in the tab order: of several charts with the same marks in the first one. */
  isReadable: boolean;
}

/** One stop of the tab key; the arrow keys go from tick to tick. */
export function ChartMarkers({ markers, place, isReadable }: ChartMarkersProps) {
  const [current, setCurrent] = useState(0);
  const clusters = clustersOf(markers, place);
  const stop = Math.min(current, clusters.length - 1);
  const onKeyDown = (event: KeyboardEvent<HTMLUListElement>) => {
    const to = { ArrowRight: stop + 1, ArrowLeft: stop - 1, Home: 0, End: clusters.length - 1 }[
      event.key
    ];
    if (to === undefined || to < 0 || to >= clusters.length) return;
    event.preventDefault();
    setCurrent(to);
    event.currentTarget.querySelectorAll("a")[to]?.focus();
  };
  return (
    <ul
      aria-label={isReadable ? "Marked steps" : undefined}
      aria-hidden={!isReadable || undefined}
      style={{ marginLeft: place.left, width: place.width }}
      className="relative h-3"
      onKeyDown={isReadable ? onKeyDown : undefined}
    >
      {clusters.map((cluster, at) => {
        const [first] = cluster.markers;
        const text = visible(markersText(cluster.markers));
        return (
          <li key={first.key} className="absolute inset-y-0" style={{ left: cluster.px }}>
            <Link
              to={first.to}
              aria-label={
                cluster.markers.length > 1
                  ? `${String(cluster.markers.length)} marks: ${text}`
                  : text
              }
              data-marker={first.kind}
              tabIndex={isReadable && at === stop ? 0 : -1}
              onFocus={() => {
                setCurrent(at);
              }}
              className="group absolute inset-y-0 -left-1.25 flex w-2.5 flex-col rounded-sm"
            >
              {coloursOf(cluster.markers).map((colour) => (
                <i
                  key={colour}
                  className="mx-auto w-0.5 flex-1 group-hover:w-1"
                  style={{ background: `var(${colour})` }}
                />
              ))}
              <span
                className={`absolute bottom-4 z-10 hidden w-max max-w-56 rounded border border-line-strong bg-raised px-2 py-1 text-left text-xs leading-snug font-normal whitespace-pre-line text-ink shadow group-hover:block group-focus-visible:block ${cluster.px > place.width / 2 ? "right-0" : "left-0"}`}
              >
                {text}
              </span>
            </Link>
          </li>
        );
      })}
    </ul>
  );
}
