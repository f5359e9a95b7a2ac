// A chart over steps: uPlot on a canvas, its values read out above it, its cursor shared with the page's other charts.
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import { alignedData, isZoomed, type Band, type Series } from "./chart-data";
import { number } from "./format";
import { plotOptions, useColourScheme } from "./plot-options";

export interface ChartProps {
  title: string;
  unit?: string;
  /** These three are compared by identity: keep them while the data is the same, or every hover draws the chart anew. */
  x: number[];
  series: Series[];
  /** A shaded range behind the first series. */
  band?: Band;
  height?: number;
  /** Said where there is no data. */
  placeholder?: string;
}

export function Chart({ title, unit = "", x, series, band, height = 200, placeholder = "No step yet" }: ChartProps) {
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const onHoverRef = useRef<(index: number | null) => void>(() => undefined);
  const scheme = useColourScheme();
  const data = useMemo(() => alignedData(x, series, band), [x, series, band]);
  const latest = useRef(data);
  const empty = x.length === 0;
  const look = JSON.stringify([series.map((one) => [one.label, one.colour]), Boolean(band), height, scheme]);

  useEffect(() => {
    const before = latest.current[0];
    latest.current = data;
    const drawn = plot.current;
    if (!drawn || drawn.data === data) return;
    // Without the second argument uPlot shows the whole range again.
    drawn.setData(data, !isZoomed(drawn.scales.x ?? {}, before as number[]));
  }, [data]);

  useEffect(() => {
    const element = container.current;
    if (!element || empty) return;
    const [lines, banded, tall] = JSON.parse(look) as [[string, string][], boolean, number];
    const onHover = (index: number | null) => {
      onHoverRef.current(index);
    };
    const made = new uPlot(plotOptions({ element, lines, banded, height: tall, onHover }), latest.current, element);
    plot.current = made;
    const watcher = new ResizeObserver(() => {
      made.setSize({ width: element.clientWidth, height: tall });
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      plot.current = null;
      made.destroy();
    };
  }, [look, empty]);

  const last = x.length - 1;
  const spoken = series.map((one) => `${one.label} ${number(one.values[last])}`).join(", ");
  return (
    <figure className="min-w-0 px-4 pt-3 pb-2">
      <figcaption className="flex flex-wrap items-center justify-between gap-x-4 text-xs">
        <span className="font-medium">
          {title}
          {unit && <span className="font-normal text-muted"> {unit}</span>}
        </span>
        {!empty && <Readout x={x} series={series} onHoverRef={onHoverRef} />}
      </figcaption>
      <div
        ref={container}
        role="img"
        aria-label={empty ? `${title}: ${placeholder}` : `${title} by step; at step ${number(x[last])}: ${spoken}`}
        style={{ height }}
        className="relative mt-1"
      >
        {empty && <p className="absolute inset-0 grid place-items-center text-xs text-muted">{placeholder}</p>}
      </div>
    </figure>
  );
}

interface ReadoutProps {
  x: number[];
  series: Series[];
  onHoverRef: { current: (index: number | null) => void };
}

/** The values at the cursor, else the latest. It alone is rendered at a movement of the mouse. */
function Readout({ x, series, onHoverRef }: ReadoutProps) {
  const [hovered, setHovered] = useState<number | null>(null);
  useEffect(() => {
    onHoverRef.current = setHovered;
  }, [onHoverRef]);
  const at = hovered !== null && hovered < x.length ? hovered : x.length - 1;
  return (
    <span className="flex flex-wrap gap-x-3 tabular-nums">
      {series.map((one) => (
        <span key={one.label} className="inline-flex items-center gap-1">
          <span aria-hidden className="h-0.5 w-2.5 rounded" style={{ background: `var(${one.colour})` }} />
          {series.length > 1 && <span className="text-muted">{one.label}</span>}
          <span className="font-medium">{number(one.values[at])}</span>
        </span>
      ))}
      {series.length === 1 && <span className="text-muted">step {number(x[at])}</span>}
    </span>
  );
}
