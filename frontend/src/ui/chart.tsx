// A chart over steps, or time or tokens: its values read out above it, its curves on a canvas, its cursor shared with the page's other charts.
import { useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { Link, useNavigate } from "react-router";
import { saveBlob } from "../api/client";
import { Button } from "./button";
import type { Axis, Range } from "./chart-axis";
import type { Series } from "./chart-data";
import { csvOf, fileName, pngOf } from "./chart-files";
import { chartKey } from "./chart-keys";
import { ChartMarkers, type Marker } from "./chart-markers";
import { lastShown, Readout, spokenText } from "./chart-readout";
import { usePlot } from "./use-plot";
import { Word } from "./word";

export interface ChartProps {
  title: string;
  unit?: string;
  /** These two are compared by identity: keep them while the data is the same, or every hover draws the chart anew. */
  x: number[];
  series: Series[];
  height?: number;
  axis?: Axis;
  /** Its curves have points at different places: lines lead over the gaps. */
  overlay?: boolean;
  /** Whether values are by their powers of ten. */
  log?: boolean;
  /** Where a click on a point leads: its address and its name. */
  linkOf?: (index: number) => { to: string; text: string } | null;
  /** What of the axis is shown, by identity; null: all of it. Without `onZoom` the chart keeps its range itself. */
  zoom?: Range | null;
  onZoom?: (range: Range | null) => void;
  /** What happened where on the axis. */
  markers?: readonly Marker[];
  /** Whether its marks can be reached by keyboard: of several charts with the same ones, one should have it. */
  hasReadableMarkers?: boolean;
  /** Said where there is no data. */
  placeholder?: string;
  /** Without data: whether some is on its way. */
  isLoading?: boolean;
}

export function Chart({
  title,
  unit = "",
  x,
  series,
  height = 200,
  axis = "step",
  overlay = false,
  log = false,
  linkOf,
  zoom = null,
  onZoom,
  markers = [],
  hasReadableMarkers = false,
  placeholder = "No step yet",
  isLoading = false,
}: ChartProps) {
  const onHoverRef = useRef<(index: number | null) => void>(() => undefined);
  const { container, plot, picked, place, isLost, retry } = usePlot({
    x,
    series,
    height,
    axis,
    overlay,
    log,
    zoom,
    onZoom,
    onHoverRef,
  });
  const [read, setRead] = useState<number | null>(null); // by keyboard
  const navigate = useNavigate();
  const empty = x.length === 0;
  const last = lastShown(x, zoom);
  const point = (index: number | null) => {
    setRead(index);
    plot.current?.setCursor({
      left: index === null ? -10 : plot.current.valToPos(x[index] ?? 0, "x"),
      top: index === null ? -10 : height / 2,
    });
    onHoverRef.current(index);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { min = x[0] ?? 0, max = x[x.length - 1] ?? 0 } = plot.current?.scales.x ?? {};
    const done =
      event.ctrlKey || event.metaKey || event.altKey
        ? null
        : chartKey(event.key, read, x, { min, max });
    if (done === null) return;
    event.preventDefault();
    if (done === "open") {
      const to = linkOf?.(read ?? 0)?.to;
      if (to) void navigate(to);
    } else if ("read" in done) point(done.read);
    else if (onZoom) onZoom(done.zoom);
    else plot.current?.setScale("x", done.zoom ?? { min: x[0] ?? 0, max: x[x.length - 1] ?? 0 });
  };
  const link = picked < 0 ? null : linkOf?.(picked);
  const savePicture = async () => {
    const canvas = plot.current?.ctx.canvas;
    const picture = canvas && (await pngOf(canvas, title, series, document.documentElement));
    if (picture) saveBlob(picture, fileName(title, "png"));
  };
  const saveValues = () => {
    saveBlob(new Blob([csvOf(axis, x, series)], { type: "text/csv" }), fileName(title, "csv"));
  };
  return (
    <figure className="group/chart min-w-0 px-4 pt-3 pb-2">
      <figcaption className="flex flex-wrap items-center justify-between gap-x-4 text-xs">
        <span className="font-medium">
          <Word text={title} />
          {unit && <span className="font-normal text-muted"> {unit}</span>}
        </span>
        {link && (
          <Link to={link.to} className="ml-auto rounded font-medium text-accent hover:underline">
            {link.text}
          </Link>
        )}
        {!empty && (
          <Readout x={x} series={series} axis={axis} last={last} onHoverRef={onHoverRef} />
        )}
        {!empty && (
          <span className="ml-auto flex gap-1 opacity-0 group-focus-within/chart:opacity-100 group-hover/chart:opacity-100 pointer-coarse:opacity-100 print:hidden">
            <Save what={`${title} as PNG`} onSave={() => void savePicture()}>
              PNG
            </Save>
            <Save what={`${title} as CSV`} onSave={saveValues}>
              CSV
            </Save>
          </span>
        )}
      </figcaption>
      <div className="relative mt-1 overflow-x-clip">
        <div
          role="application"
          aria-roledescription="chart"
          aria-label={title}
          tabIndex={empty ? undefined : 0}
          className="group/keys rounded -outline-offset-2"
          onKeyDown={empty ? undefined : onKeyDown}
          onBlur={() => {
            if (read !== null) point(null);
          }}
        >
          <div
            ref={container}
            role="img"
            aria-label={
              empty
                ? `${title}: ${isLoading ? "Loading…" : placeholder}`
                : `${title} by ${axis}; ${spokenText(x, series, axis, last)}`
            }
            style={{ height }}
            className="relative"
          >
            {empty && isLoading && (
              <span
                aria-hidden
                className="absolute inset-0 animate-pulse rounded bg-sunken motion-reduce:animate-none"
              />
            )}
            {empty && !isLoading && (
              <p className="absolute inset-0 grid place-items-center text-xs text-muted">
                {placeholder}
              </p>
            )}
          </div>
          <p className="pointer-events-none absolute top-0 right-1 z-10 hidden rounded border border-line bg-raised px-1.5 py-0.5 text-[11px] text-muted group-focus-visible/keys:block">
            ← → read, + − zoom, 0 shows all{linkOf && ", Enter opens"}
          </p>
          <span className="sr-only" aria-live="polite">
            {read !== null && spokenText(x, series, axis, read, true)}
          </span>
        </div>
        {markers.length > 0 && place && (
          <ChartMarkers markers={markers} place={place} isReadable={hasReadableMarkers} />
        )}
      </div>
      {isLost && !empty && (
        <p className="flex flex-wrap items-center gap-2 text-xs text-muted print:hidden">
          What draws the curve could not be loaded; its values are above.
          <Button look="quiet" onClick={retry}>
            Try again
          </Button>
        </p>
      )}
    </figure>
  );
}

function Save({
  what,
  onSave,
  children,
}: {
  what: string;
  onSave: () => void;
  children: ReactNode;
}) {
  return (
    <button
      type="button"
      aria-label={`Save ${what}`}
      title={`Save ${what}`}
      className="rounded px-1 text-[11px] text-muted hover:bg-sunken hover:text-ink"
      onClick={onSave}
    >
      {children}
    </button>
  );
}
