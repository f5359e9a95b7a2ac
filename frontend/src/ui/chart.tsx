// A chart over steps: uPlot on a canvas, its values read out above it, its cursor shared with the page's other charts.
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import { number } from "./format";
import { plotOptions, useColourScheme } from "./plot-options";

export interface Series {
  label: string;
  values: (number | null)[];
  /** CSS variable of its colour, e.g. "--series-1". */
  colour: string;
}

export interface ChartProps {
  title: string;
  unit?: string;
  x: number[];
  series: Series[];
  /** A shaded range behind the first series: the lower and the upper edge. */
  band?: { label: string; low: number[]; high: number[] };
  height?: number;
}

export function Chart({ title, unit = "", x, series, band, height = 200 }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const scheme = useColourScheme();
  const data: uPlot.AlignedData = [x, ...(band ? [band.low, band.high] : []), ...series.map((one) => one.values)];
  const latest = useRef(data);
  const empty = x.length === 0;
  const look = JSON.stringify([series.map((one) => [one.label, one.colour]), Boolean(band), height, scheme]);

  useEffect(() => {
    latest.current = data;
    plot.current?.setData(data);
  });

  useEffect(() => {
    const element = place.current;
    if (!element || empty) return;
    const [lines, banded, tall] = JSON.parse(look) as [[string, string][], boolean, number];
    const made = new uPlot(plotOptions({ element, lines, banded, height: tall, onHover: setHovered }), latest.current, element);
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

  const at = hovered !== null && hovered < x.length ? hovered : x.length - 1;
  const spoken = series.map((one) => `${one.label} ${number(one.values[at])}`).join(", ");
  return (
    <figure className="min-w-0 px-4 pt-3 pb-2">
      <figcaption className="flex flex-wrap items-center justify-between gap-x-4 text-xs">
        <span className="font-medium">
          {title}
          {unit && <span className="font-normal text-muted"> {unit}</span>}
        </span>
        {!empty && (
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
        )}
      </figcaption>
      <div ref={place} role="img" aria-label={empty ? `${title}: no step yet` : `${title} by step; at step ${number(x[at])}: ${spoken}`} style={{ height }} className="relative mt-1">
        {empty && <p className="absolute inset-0 grid place-items-center text-xs text-muted">No step yet</p>}
      </div>
    </figure>
  );
}
