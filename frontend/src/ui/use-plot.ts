// A uPlot in a box of the page: made when it comes near the window, kept while its look is the same, given new data in place.
import { useEffect, useMemo, useRef, useState, type RefObject } from "react";
import type uPlot from "uplot";
import { isSameRange, type Axis, type Range } from "./chart-axis";
import {
  alignedData,
  isZoomed,
  linesOf,
  positive,
  zoomOver,
  type Line,
  type Series,
} from "./chart-data";
import type { Place } from "./chart-markers";
import { useColourScheme, usePrinting } from "./theme";
import { useNear } from "./use-near";

const PAUSES_MS = [1_000, 4_000, 15_000];

/** `load`, once for all who ask, until it failed once more than there are pauses. */
export function retried<T>(
  load: () => Promise<T>,
  pausesMs: readonly number[] = PAUSES_MS,
): () => Promise<T> {
  let going: Promise<T> | undefined;
  const attempt = async ([pause, ...later]: readonly number[]): Promise<T> => {
    try {
      return await load();
    } catch (error) {
      if (pause === undefined) throw error;
      await new Promise((done) => setTimeout(done, pause));
      return attempt(later);
    }
  };
  return () => {
    going ??= attempt(pausesMs).catch((error: unknown) => {
      going = undefined;
      throw error;
    });
    return going;
  };
}

const plotLoad = retried(() => import("./plot"));

/** For pages with charts, as soon as their code is there: what draws is on its way while they are painted without it. */
export function fetchPlots(): void {
  void plotLoad().catch(() => undefined); // each chart that needs it asks again, and says what it lacks
}

interface Plotted {
  x: number[];
  series: readonly Series[];
  height: number;
  axis: Axis;
  overlay: boolean;
  log: boolean;
  zoom: Range | null;
  onZoom: ((range: Range | null) => void) | undefined;
  onHoverRef: RefObject<(index: number | null) => void>;
}

interface Plot {
  container: RefObject<HTMLDivElement | null>;
  plot: RefObject<uPlot | null>;
  /** The index of the point that was clicked; -1: none, or it is not drawn any more. */
  picked: number;
  /** Where it is drawn; null while it is not. */
  place: Place | null;
  /** Whether what draws could not be loaded. */
  isLost: boolean;
  retry: () => void;
}

export function usePlot({
  x,
  series,
  height,
  axis,
  overlay,
  log,
  zoom,
  onZoom,
  onHoverRef,
}: Plotted): Plot {
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [pickedX, setPickedX] = useState<number | null>(null);
  const [place, setPlace] = useState<Place | null>(null);
  const [tries, setTries] = useState(0);
  const [isLost, setIsLost] = useState(false);
  const scheme = useColourScheme();
  const printing = usePrinting();
  const isNear = useNear(container, printing) || printing;
  const isDrawn = isNear && x.length > 0;
  const data = useMemo(() => alignedData(x, log ? positive(series) : series), [x, series, log]);
  const latest = useRef(data);
  const zoomRef = useRef({ zoom, onZoom });
  useEffect(() => {
    zoomRef.current = { zoom, onZoom };
  });
  const look = JSON.stringify({
    lines: linesOf(series),
    height,
    axis,
    overlay,
    printed: printing,
    log,
    scheme,
  });

  useEffect(() => {
    const before = latest.current[0];
    latest.current = data;
    const drawn = plot.current;
    if (!drawn || drawn.data === data || drawn.series.length !== data.length) return; // of another look: it is made anew
    const shown = { ...drawn.scales.x };
    const zoomed = isZoomed(shown, before as number[]);
    // Without the second argument uPlot shows the whole range again; with it, it draws nothing until its range is set.
    drawn.setData(data, !zoomed);
    if (zoomed) drawn.setScale("x", zoomOver(shown, before as number[], data[0] as number[]));
  }, [data]);

  useEffect(() => {
    const element = container.current;
    if (!element || !isDrawn) return;
    const looks = JSON.parse(look) as {
      lines: Line[];
      height: number;
      axis: Axis;
      overlay: boolean;
      printed: boolean;
      log: boolean;
    };
    const onHover = (index: number | null) => {
      onHoverRef.current(index);
    };
    const onPick = (index: number) => {
      setPickedX(latest.current[0][index] ?? null);
    };
    const onPlace = (now: Place) => {
      setPlace((before) => (JSON.stringify(before) === JSON.stringify(now) ? before : now));
    };
    let remove: (() => void) | undefined;
    let isGone = false;
    void plotLoad().then(
      ({ plotMake }) => {
        if (isGone) return;
        setIsLost(false);
        const asked = zoomRef.current.zoom;
        const made = plotMake(
          {
            element,
            ...looks,
            onHover,
            onPick,
            onZoom: (range) => zoomRef.current.onZoom?.(range),
            onPlace,
          },
          latest.current,
        );
        plot.current = made.plot;
        if (asked) made.plot.setScale("x", asked);
        remove = made.remove;
      },
      () => {
        if (!isGone) setIsLost(true);
      },
    );
    return () => {
      isGone = true;
      plot.current = null;
      remove?.();
    };
  }, [look, isDrawn, tries, onHoverRef]);

  const isZoomKept = onZoom !== undefined;
  useEffect(() => {
    const drawn = plot.current;
    if (!drawn || !isZoomKept) return;
    const known = drawn.data[0] as number[];
    const [first, end] = [known[0], known[known.length - 1]];
    if (
      zoom
        ? !isSameRange(drawn.scales.x ?? {}, zoom)
        : isZoomed(drawn.scales.x ?? {}, known) && first !== undefined && end !== undefined
    ) {
      drawn.setScale("x", zoom ?? { min: first ?? 0, max: end ?? 0 });
    }
  }, [zoom, isZoomKept]);

  const retry = () => {
    setTries((before) => before + 1);
  };
  // Its place and not its index: points before it may come and go with a zoom.
  const picked = pickedX === null ? -1 : x.indexOf(pickedX);
  return { container, plot, picked, place: isDrawn ? place : null, isLost, retry };
}
