// A chart over steps, or time or tokens: its values read out above it, its curves on a canvas, its cursor shared with the page's other charts.
import { useRef } from "react";
import { Button } from "./button";
import { ChartCaption } from "./chart-caption";
import { ChartMarkers } from "./chart-markers";
import type { ChartProps } from "./chart-props";
import { spokenText } from "./chart-readout";
import { usePlot } from "./use-plot";
import { useReadPoint } from "./use-read-point";

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
  const drawn = usePlot({ x, series, height, axis, overlay, log, zoom, onZoom, onHoverRef });
  const { container, plot, place, isLost, retry } = drawn;
  const { read, onKeyDown, onBlur } = useReadPoint({ x, linkOf, onZoom, plot, height, onHoverRef });
  const empty = x.length === 0;
  return (
    <figure className="group/chart min-w-0 px-4 pt-3 pb-2">
      <ChartCaption {...{ title, unit, x, series, axis, zoom, linkOf, drawn, onHoverRef }} />
      <div className="relative mt-1 overflow-x-clip">
        <div
          role="application"
          aria-roledescription="chart"
          aria-label={title}
          tabIndex={empty ? undefined : 0}
          className="group/keys rounded -outline-offset-2"
          onKeyDown={empty ? undefined : onKeyDown}
          onBlur={onBlur}
        >
          <div
            ref={container}
            role="img"
            aria-label={
              empty
                ? `${title}: ${isLoading ? "Loading…" : placeholder}`
                : `${title} by ${axis}; ${spokenText(x, series, axis, zoom)}`
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
            {read !== null && spokenText(x, series, axis, zoom, read)}
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
