// Charts beside each other; of what is constant over the whole run its value alone.
import type { ReactNode } from "react";
import { Chart, type ChartProps } from "../../../ui/chart";
import type { Series } from "../../../ui/chart-data";
import { number } from "../../../ui/format";
import { visible } from "../../../ui/plain-text";
import { constantsOf } from "./step-columns";

export interface DrawnPlot {
  title: string;
  unit: string;
  series: Series[];
}

interface PlotGridProps {
  plots: readonly DrawnPlot[];
  /** What the charts have in common. */
  common: Omit<ChartProps, "title" | "unit" | "series">;
  children?: ReactNode;
}

export function PlotGrid({ plots, common, children }: PlotGridProps) {
  const judged = plots.map((plot) => ({ plot, constants: constantsOf(plot.series) }));
  const constant = judged.flatMap(({ plot, constants }) => (constants ? [{ title: plot.title, constants }] : []));
  return (
    <>
      <div className="grid grid-cols-1 border-line sm:grid-cols-2 [&>*]:border-t [&>*]:border-line">
        {children}
        {judged.map(({ plot, constants }) => constants === null && <Chart key={plot.title} {...common} {...plot} title={visible(plot.title)} unit={visible(plot.unit)} />)}
      </div>
      {constant.length > 0 && (
        <dl aria-label="Constant over the run" className="flex flex-wrap gap-x-6 gap-y-1 border-t border-line px-4 py-2 text-xs">
          {constant.map(({ title, constants }) => (
            <div key={title} className="flex gap-1.5" title="The same at every step">
              <dt className="text-muted">{visible(title)}</dt>
              <dd className="font-medium tabular-nums">{constants.map(([label, value]) => (constants.length > 1 ? `${label} ${number(value)}` : number(value))).join(", ")}</dd>
            </div>
          ))}
        </dl>
      )}
    </>
  );
}
