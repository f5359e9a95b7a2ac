// A chart over steps, or time or tokens: uPlot on a canvas, its values read out above it, its cursor shared with the page's other charts.
import { useEffect, useMemo, useRef, useState } from "react";
import { Link } from "react-router";
import type uPlot from "uplot";
import { Button } from "./button";
import { axisText, type Axis } from "./chart-axis";
import { alignedData, isZoomed, positive, valueAt, zoomOver, type Band, type Series } from "./chart-data";
import { ChartMarkers } from "./chart-markers";
import type { Marker, Place } from "./chart-marks";
import { isSameRange, type Range } from "./chart-zoom";
import { number } from "./format";
import { retried } from "./retried";
import { useColourScheme, usePrinting } from "./theme";
import { useNear } from "./use-near";
import { UserText } from "./user-text";

const plotLoad = retried(() => import("./plot"));

/** For pages with charts, as soon as their code is there: what draws is on its way while they are painted without it. */
export function fetchPlots(): void {
  void plotLoad().catch(() => undefined); // each chart that needs it asks again, and says what it lacks
}

export interface ChartProps {
  title: string;
  unit?: string;
  /** These three are compared by identity: keep them while the data is the same, or every hover draws the chart anew. */
  x: number[];
  series: Series[];
  /** A shaded range behind the first series. */
  band?: Band;
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

export function Chart({ title, unit = "", x, series, band, height = 200, axis = "step", overlay = false, log = false, linkOf, zoom = null, onZoom, markers, hasReadableMarkers = false, placeholder = "No step yet", isLoading = false }: ChartProps) {
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [picked, setPicked] = useState<number | null>(null);
  const onHoverRef = useRef<(index: number | null) => void>(() => undefined);
  const [place, setPlace] = useState<Place | null>(null);
  const [tries, setTries] = useState(0);
  const [isLost, setIsLost] = useState(false);
  const scheme = useColourScheme();
  const printing = usePrinting();
  const isNear = useNear(container, printing) || printing;
  const data = useMemo(() => alignedData(x, log ? positive(series) : series, band), [x, series, band, log]);
  const latest = useRef(data);
  const zoomRef = useRef({ zoom, onZoom });
  useEffect(() => {
    zoomRef.current = { zoom, onZoom };
  });
  const empty = x.length === 0;
  const look = JSON.stringify([series.map((one) => [one.label, one.colour]), Boolean(band), height, axis, overlay, printing, log, scheme]);

  useEffect(() => {
    const before = latest.current[0];
    latest.current = data;
    const drawn = plot.current;
    if (!drawn || drawn.data === data) return;
    const shown = { ...drawn.scales.x };
    const zoomed = isZoomed(shown, before as number[]);
    // Without the second argument uPlot shows the whole range again; with it, it draws nothing until its range is set.
    drawn.setData(data, !zoomed);
    if (zoomed) drawn.setScale("x", zoomOver(shown, before as number[], data[0] as number[]));
  }, [data]);

  useEffect(() => {
    const element = container.current;
    if (!element || empty || !isNear) return;
    const [lines, banded, tall, over, gaps, printed, byPowers] = JSON.parse(look) as [[string, string][], boolean, number, Axis, boolean, boolean, boolean];
    const onHover = (index: number | null) => {
      onHoverRef.current(index);
    };
    const onPlace = (now: Place) => {
      setPlace((before) => (JSON.stringify(before) === JSON.stringify(now) ? before : now));
    };
    let remove: (() => void) | undefined;
    let isGone = false;
    const draw = ({ plotMake }: Awaited<ReturnType<typeof plotLoad>>) => {
      if (isGone) return;
      setIsLost(false);
      const asked = zoomRef.current.zoom;
      const made = plotMake({ element, lines, banded, height: tall, axis: over, overlay: gaps, printed, log: byPowers, onHover, onPick: setPicked, onZoom: (range) => zoomRef.current.onZoom?.(range), onPlace }, latest.current);
      plot.current = made.plot;
      if (asked) made.plot.setScale("x", asked);
      remove = made.remove;
    };
    void plotLoad().then((plots) => {
      draw(plots);
    }, () => {
      if (!isGone) setIsLost(true);
    });
    return () => {
      isGone = true;
      plot.current = null;
      remove?.();
    };
  }, [look, empty, isNear, tries]);

  const isZoomKept = onZoom !== undefined;
  useEffect(() => {
    const drawn = plot.current;
    if (!drawn || !isZoomKept) return;
    const known = drawn.data[0] as number[];
    const [first, end] = [known[0], known[known.length - 1]];
    if (zoom ? !isSameRange(drawn.scales.x ?? {}, zoom) : isZoomed(drawn.scales.x ?? {}, known) && first !== undefined && end !== undefined) {
      drawn.setScale("x", zoom ?? { min: first ?? 0, max: end ?? 0 });
    }
  }, [zoom, isZoomKept]);

  const last = x.length - 1;
  const link = picked !== null && picked <= last ? linkOf?.(picked) : null;
  const spoken = series.map((one) => `${one.label} ${number(readAt(one.values, last, overlay))}`).join(", ");
  return (
    <figure className="min-w-0 px-4 pt-3 pb-2">
      <figcaption className="flex flex-wrap items-center justify-between gap-x-4 text-xs">
        <span className="font-medium">
          {title}
          {unit && <span className="font-normal text-muted"> {unit}</span>}
        </span>
        {link && (
          <Link to={link.to} className="ml-auto rounded font-medium text-accent hover:underline">
            {link.text}
          </Link>
        )}
        {!empty && <Readout x={x} series={series} axis={axis} overlay={overlay} onHoverRef={onHoverRef} />}
      </figcaption>
      <div className="relative mt-1 overflow-x-clip">
        <div
          ref={container}
          role="img"
          aria-label={empty ? `${title}: ${isLoading ? "Loading…" : placeholder}` : `${title} by ${axis}; at ${axisText(axis, x[last])}: ${spoken}`}
          style={{ height }}
          className="relative"
        >
          {empty && isLoading && <span aria-hidden className="absolute inset-0 animate-pulse rounded bg-sunken motion-reduce:animate-none" />}
          {empty && !isLoading && <p className="absolute inset-0 grid place-items-center text-xs text-muted">{placeholder}</p>}
        </div>
        {markers && place && isNear && !empty && <ChartMarkers markers={markers} place={place} isReadable={hasReadableMarkers} />}
      </div>
      {isLost && !empty && (
        <p className="flex flex-wrap items-center gap-2 text-xs text-muted print:hidden">
          What draws the curve could not be loaded; its values are above.
          <Button look="quiet" onClick={() => setTries((before) => before + 1)}>Try again</Button>
        </p>
      )}
    </figure>
  );
}

interface ReadoutProps {
  x: number[];
  series: Series[];
  axis: Axis;
  overlay: boolean;
  onHoverRef: { current: (index: number | null) => void };
}

/** The values at the cursor, else the latest. It alone is rendered at a movement of the mouse. */
function Readout({ x, series, axis, overlay, onHoverRef }: ReadoutProps) {
  const [hovered, setHovered] = useState<number | null>(null);
  useEffect(() => {
    onHoverRef.current = setHovered;
  }, [onHoverRef]);
  const at = hovered !== null && hovered < x.length ? hovered : x.length - 1;
  return (
    <span translate="no" className="flex flex-wrap gap-x-3 tabular-nums">
      {series.map((one) => (
        <span key={one.label} className="inline-flex items-center gap-1">
          <span aria-hidden className="h-0.5 w-2.5 rounded" style={{ background: `var(${one.colour})` }} />
          {series.length > 1 && <UserText className="max-w-40 truncate text-muted" text={one.label} />}
          <span className="font-medium">{number(readAt(one.values, at, overlay))}</span>
        </span>
      ))}
      {(series.length === 1 || axis !== "step" || overlay) && <span className="text-muted">{axisText(axis, x[at])}</span>}
    </span>
  );
}

function readAt(values: readonly (number | null)[], at: number, overlay: boolean): number | null | undefined {
  return overlay ? valueAt(values, at) : values[at];
}
