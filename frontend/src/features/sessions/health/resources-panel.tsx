// What the run's runtimes used of their machines, over the time since it was created.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { resourcesQuery } from "../../../api/resources";
import { Chart } from "../../../ui/chart";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { fetchPlots } from "../../../ui/use-plot";
import { resourceCharts } from "./resource-charts";

fetchPlots();

export function ResourcesPanel({ id, isLive }: { id: string; isLive: boolean }) {
  const { data, error } = useQuery(resourcesQuery(id, isLive));
  const charts = useMemo(() => (data ? resourceCharts(data) : []), [data]);
  const gpus = [...new Set(data?.latest?.gpus.map((gpu) => gpu.name))].join(", ");
  return (
    <Panel
      title="Machine"
      actions={
        <span className="truncate text-xs text-muted">
          {gpus || "Drag to zoom, double-click to reset"}
        </span>
      }
    >
      <ErrorNotice error={error} />
      {!data && !error && <Loading />}
      {data && charts.length === 0 && (
        <p className="p-4 text-muted">
          No sample: they come every 10 s while the run has a runtime.
        </p>
      )}
      <div className="grid sm:grid-cols-2">
        {data &&
          charts.map((chart) => (
            <Chart
              key={chart.title}
              {...chart}
              x={data.x}
              axis="time"
              height={130}
              placeholder="No sample yet"
            />
          ))}
      </div>
    </Panel>
  );
}
