// Lines across a chart at what happened there, each with a flag that says it: at the mouse, and by keyboard.
import { useState, type CSSProperties, type KeyboardEvent } from "react";
import { Link } from "react-router";
import { clustersOf, flagLeft, markersText, type Marker, type Place } from "./chart-marks";
import { visible } from "./plain-text";

interface ChartMarkersProps {
  markers: readonly Marker[];
  place: Place;
  /** Whether the flags are in the tab order: of several charts with the same marks in the first one. */
  isReadable: boolean;
}

/** One stop of the tab key; the arrow keys go from flag to flag. */
export function ChartMarkers({ markers, place, isReadable }: ChartMarkersProps) {
  const [current, setCurrent] = useState(0);
  const clusters = clustersOf(markers, place);
  const stop = Math.min(current, clusters.length - 1);
  const onKeyDown = (event: KeyboardEvent<HTMLUListElement>) => {
    const to = { ArrowRight: stop + 1, ArrowLeft: stop - 1, Home: 0, End: clusters.length - 1 }[event.key];
    if (to === undefined || to < 0 || to >= clusters.length) return;
    event.preventDefault();
    setCurrent(to);
    event.currentTarget.querySelectorAll("a")[to]?.focus();
  };
  if (clusters.length === 0) return null;
  const box: CSSProperties = { left: place.left, width: place.width, top: place.top, height: place.height };
  return (
    <ul aria-label={isReadable ? "Marked steps" : undefined} aria-hidden={!isReadable || undefined} style={box} className="pointer-events-none absolute" onKeyDown={isReadable ? onKeyDown : undefined}>
      {clusters.map((cluster, at) => {
        const [first] = cluster.markers;
        const text = visible(markersText(cluster.markers));
        return (
          <li key={first.key} className="absolute inset-y-0 border-l border-dashed" style={{ left: cluster.px, borderColor: `var(${first.colour})` }}>
            <Link
              to={first.to}
              aria-label={cluster.markers.length > 1 ? `${String(cluster.markers.length)} marks: ${text}` : text}
              data-marker={first.kind}
              tabIndex={isReadable && at === stop ? 0 : -1}
              onFocus={() => { setCurrent(at); }}
              className="group pointer-events-auto absolute -top-1 grid size-4 place-items-center rounded-sm bg-surface text-[10px] leading-none font-bold ring-1 print:hidden"
              // Over its line, but at the axis beside it: left of the axis stand the values.
              style={{ left: flagLeft(cluster.px), color: `var(${first.colour})`, "--tw-ring-color": `var(${first.colour})` } as CSSProperties}
            >
              {cluster.markers.length > 1 ? cluster.markers.length : first.letter}
              <span
                className={`absolute top-5 z-10 hidden w-max max-w-56 rounded border border-line-strong bg-raised px-2 py-1 text-left text-xs leading-snug font-normal whitespace-pre-line text-ink shadow group-hover:block group-focus-visible:block ${cluster.px > place.width / 2 ? "right-0" : "left-0"}`}
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
