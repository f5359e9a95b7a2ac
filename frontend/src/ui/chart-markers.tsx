// Ticks under the axis of a chart at what happened there: each says what at the mouse, and by keyboard.
import { useState, type KeyboardEvent } from "react";
import { Link } from "react-router";
import { clustersOf, coloursOf, markersText, type Marker, type Place } from "./chart-marks";
import { visible } from "./plain-text";

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
