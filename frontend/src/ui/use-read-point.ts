// The point of a chart that is read by keyboard.
import { useState, type KeyboardEvent, type RefObject } from "react";
import { useNavigate } from "react-router";
import type uPlot from "uplot";
import { chartKey } from "./chart-keys";
import type { ChartProps } from "./chart-props";

interface Keyed extends Pick<ChartProps, "x" | "linkOf" | "onZoom"> {
  plot: RefObject<uPlot | null>;
  height: number;
  onHoverRef: RefObject<(index: number | null) => void>;
}

/** `read`: its index, null where none is; the other two are the chart's handlers. */
export function useReadPoint({ x, linkOf, onZoom, plot, height, onHoverRef }: Keyed) {
  const [read, setRead] = useState<number | null>(null);
  const navigate = useNavigate();
  const point = (index: number | null) => {
    setRead(index);
    plot.current?.setCursor({
      left: index === null ? -10 : plot.current.valToPos(x[index] ?? 0, "x"),
      top: index === null ? -10 : height / 2,
    });
    onHoverRef.current(index);
  };
  const whole = { min: x[0] ?? 0, max: x[x.length - 1] ?? 0 };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { min = whole.min, max = whole.max } = plot.current?.scales.x ?? {};
    const done = chartKey(event.key, read, x, { min, max });
    if (done === null) return;
    event.preventDefault();
    if (done === "open") {
      const to = linkOf?.(read ?? 0)?.to;
      if (to) void navigate(to);
    } else if ("read" in done) point(done.read);
    else if (onZoom) onZoom(done.zoom);
    else plot.current?.setScale("x", done.zoom ?? whole);
  };
  const onBlur = () => {
    if (read !== null) point(null);
  };
  return { read, onKeyDown, onBlur };
}
