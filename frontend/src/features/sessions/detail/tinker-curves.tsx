// The curves of one model of a Tinker session: the losses of its calls, and what its optimizer steps returned.
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { finerCallsQuery, modelCallsQuery, type CallKind } from "../../../api/tinker";
import type { ModelCalls, Session, TinkerModel, TinkerRun } from "../../../api/types";
import { useAddress } from "../../../ui/address-part";
import { ChartControls, isLog } from "../../../ui/chart-controls";
import type { Series } from "../../../ui/chart-data";
import type { Range } from "../../../ui/chart-axis";
import { inputClass } from "../../../ui/field";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { smoothed, useSmoothing } from "../../../ui/smoothing";
import { fetchPlots } from "../../../ui/use-plot";
import { PlotGrid } from "./plot-grid";
import {
  lossCharts,
  modelName,
  stepCharts,
  withFinerCalls,
  type CallChart,
} from "./tinker-columns";

fetchPlots();

interface ModelCurvesProps {
  session: Session;
  run: TinkerRun;
  model: TinkerModel;
  isLive: boolean;
  onChoose: (id: string) => void;
}

export function ModelCurves({ session, run, model, isLive, onChoose }: ModelCurvesProps) {
  const [address] = useAddress();
  const smoothing = useSmoothing();
  const { weight } = smoothing;
  const log = isLog(address);
  return (
    <Panel
      title="Training"
      actions={
        run.models.length > 1 && (
          <select
            aria-label="Model of the curves"
            className={`${inputClass} h-7! w-auto! max-w-64 text-xs`}
            value={model.id}
            onChange={(event) => {
              onChoose(event.target.value);
            }}
          >
            {run.models.map(({ id }) => (
              <option key={id} value={id}>
                {modelName(id, run)}
              </option>
            ))}
          </select>
        )
      }
    >
      <div className="border-b border-line px-4 py-1.5">
        <ChartControls smoothing={smoothing} hasAxes={false} />
      </div>
      <div data-testid="charts" className="divide-y divide-line">
        <Curves
          {...{ session, model, isLive, weight, log }}
          kind="forward_backward"
          chartsOf={lossCharts}
          none="No call of forward_backward yet"
        />
        <Curves
          {...{ session, model, isLive, weight, log }}
          kind="optim_step"
          chartsOf={stepCharts}
          none="No optimizer step yet"
        />
      </div>
    </Panel>
  );
}

interface CurvesProps {
  session: Session;
  model: TinkerModel;
  isLive: boolean;
  weight: number;
  log: boolean;
  kind: CallKind;
  chartsOf: (calls: ModelCalls) => CallChart[];
  none: string;
}

function Curves({ session, model, isLive, weight, log, kind, chartsOf, none }: CurvesProps) {
  const { data, error, isPending } = useQuery(modelCallsQuery(session.id, model.id, kind, isLive));
  // Calls and steps are numbered apart: each of the two groups is zoomed by itself.
  const [zoom, setZoom] = useState<Range | null>(null);
  const isCoarse = data !== undefined && data.numbers.length < data.calls_within;
  const finer = useQuery(
    finerCallsQuery(session.id, model.id, kind, isCoarse ? zoom : null, isLive),
  );
  const calls = useMemo(
    () => data && withFinerCalls(data, zoom ? finer.data : undefined),
    [data, finer.data, zoom],
  );
  const charts = useMemo(
    () =>
      (calls ? chartsOf(calls) : []).map((chart) => ({
        ...chart,
        series: chart.series.map((line) => withSmoothing(line, weight)),
      })),
    [calls, chartsOf, weight],
  );
  if (isPending || error || !calls || charts.length === 0)
    return error ? (
      <ErrorNotice error={error} />
    ) : isPending ? (
      <Loading />
    ) : (
      <p className="p-4 text-muted">{none}</p>
    );
  return (
    <>
      <ErrorNotice error={finer.error} />
      <PlotGrid
        plots={charts}
        common={{
          x: calls.numbers,
          axis: kind === "optim_step" ? "step" : "call",
          log,
          height: 150,
          zoom,
          onZoom: setZoom,
        }}
      />
    </>
  );
}

function withSmoothing(line: Series, weight: number): Series {
  return weight > 0 ? { ...line, values: smoothed(line.values, weight), raw: line.values } : line;
}
