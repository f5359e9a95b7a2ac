// Above a chart: its name, the values under the cursor, what the clicked point opens, and its files.
import type { ReactNode, RefObject } from "react";
import { Link } from "react-router";
import { saveBlob } from "../api/client";
import { csvOf, fileName, pngOf } from "./chart-files";
import type { ChartProps } from "./chart-props";
import { Readout } from "./chart-readout";
import type { Plot } from "./use-plot";
import { Word } from "./word";

interface CaptionProps extends Pick<ChartProps, "title" | "unit" | "x" | "series" | "linkOf"> {
  axis: NonNullable<ChartProps["axis"]>;
  zoom: NonNullable<ChartProps["zoom"]> | null;
  drawn: Pick<Plot, "plot" | "picked">;
  onHoverRef: RefObject<(index: number | null) => void>;
}

export function ChartCaption({
  title,
  unit,
  x,
  series,
  axis,
  zoom,
  linkOf,
  drawn: { plot, picked },
  onHoverRef,
}: CaptionProps) {
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
      {x.length > 0 && (
        <>
          <Readout x={x} series={series} axis={axis} zoom={zoom} onHoverRef={onHoverRef} />
          <span className="ml-auto flex gap-1 opacity-0 group-focus-within/chart:opacity-100 group-hover/chart:opacity-100 pointer-coarse:opacity-100 print:hidden">
            <Save what={`${title} as PNG`} onSave={() => void savePicture()}>
              PNG
            </Save>
            <Save what={`${title} as CSV`} onSave={saveValues}>
              CSV
            </Save>
          </span>
        </>
      )}
    </figcaption>
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
