// Charts beside each other; of what is constant over the whole run its value alone.
import type { ReactNode } from "react";
import { Chart, type ChartProps } from "../../../ui/chart";
import type { Series } from "../../../ui/chart-data";
import { number } from "../../../ui/format";
import { visible } from "../../../ui/plain-text";
import { Word } from "../../../ui/word";
import { constantsOf } from "./step-columns";

interface DrawnPlot {
  title: string;
  unit: string;
  series: Series[];
  /** Its own; without it, the common one. */
  x?: number[];
}

interface PlotGridProps {
  plots: readonly DrawnPlot[];
  /** What the charts have in common. */
  common: Omit<ChartProps, "title" | "unit" | "series" | "x"> & { x: number[] };
  children?: ReactNode;
}

export function PlotGrid({ plots, common, children }: PlotGridProps) {
  const judged = plots.map((plot) => ({ plot, constants: constantsOf(plot.series) }));
  const constant = judged.flatMap(({ plot, constants }) =>
    constants ? [{ plot, constants }] : [],
  );
  return (
    <>
      <div className="grid grid-cols-1 border-line sm:grid-cols-2 [&>*]:border-t [&>*]:border-line">
        {children}
        {judged.map(
          ({ plot, constants }) =>
            constants === null && (
              <Chart
                key={keyOf(plot)}
                {...common}
                {...plot}
                title={visible(plot.title)}
                unit={visible(plot.unit)}
              />
            ),
        )}
      </div>
      {constant.length > 0 && (
        <dl
          aria-label="Constant over the run"
          className="flex flex-wrap gap-x-6 gap-y-1 border-t border-line px-4 py-2 text-xs"
        >
          {constant.map(({ plot, constants }) => (
            <div
              key={keyOf(plot)}
              className="flex gap-1.5"
              title={`${visible(plot.unit)}: the same at every step`}
            >
              <dt className="text-muted">
                <Word text={visible(plot.title)} />
              </dt>
              <dd className="font-medium tabular-nums">
                {constants
                  .map(([label, value]) =>
                    constants.length > 1 ? `${label} ${number(value)}` : number(value),
                  )
                  .join(", ")}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </>
  );
}

/** A metric, a part of the reward and an agent may have the same name. */
function keyOf({ title, unit }: DrawnPlot): string {
  return JSON.stringify([title, unit]);
}
