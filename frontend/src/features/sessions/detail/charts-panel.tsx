// The curves of a session, over what the address says.
import { useQuery } from "@tanstack/react-query";
import { memo, useMemo } from "react";
import { useSearchParams } from "react-router";
import { metricsQuery, stepsOf } from "../../../api/metrics";
import type { Evaluation, StepMetrics } from "../../../api/types";
import { axisOf, type Axis } from "../../../ui/chart-axis";
import { ChartControls, isLog } from "../../../ui/chart-controls";
import { Chart } from "../../../ui/chart";
import { ErrorNotice, Notice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { smoothed, smoothingOf } from "../../../ui/smoothing";
import { LOSS, PAIRS, REWARD, type Plot } from "./plots";
import { evaluationColumns, lines, noGradientText, rewardBand } from "./step-columns";

interface ChartsPanelProps {
  id: string;
  steps: readonly StepMetrics[];
  evaluations: readonly Evaluation[];
  /** Without a step here: whether there may be some, still on their way. */
  isLoading: boolean;
  /** Said where there is no step and none is on its way. */
  placeholder: string;
  isLive: boolean;
}

export const ChartsPanel = memo(function ChartsPanel({ id, steps: recorded, evaluations, isLoading, placeholder, isLive }: ChartsPanelProps) {
  const [address] = useSearchParams();
  const weight = smoothingOf(address);
  const { axis, steps, x, error } = useStepsOver(axisOf(address), id, recorded, isLive);
  const evaluated = useMemo(() => evaluationColumns(evaluations), [evaluations]);
  const band = useMemo(() => rewardBand(steps), [steps]);
  const plots = useMemo(() => {
    const drawn = ({ title, unit = "", lines: wanted }: Plot) => ({
      title,
      unit,
      series: lines(steps, wanted).map((line) => ({ ...line, values: smoothed(line.values, weight) })),
    });
    return { reward: drawn(REWARD), loss: drawn(LOSS), pairs: PAIRS.map((pair) => pair.map(drawn)) };
  }, [steps, weight]);
  const nothing = noGradientText(recorded[recorded.length - 1]);
  const linkOf = (index: number) => {
    const step = steps[index]?.step;
    return step === undefined ? null : { to: `/sessions/${id}/steps/${String(step)}`, text: `Open step ${String(step)}` };
  };
  const common = { x, axis, isLoading, placeholder, linkOf };
  const log = isLog(address);
  return (
    <Panel title="Training" actions={<span className="text-xs text-muted">Drag to zoom, double-click to reset, click for a step</span>}>
      <div className="border-b border-line px-4 py-1.5">
        <ChartControls />
      </div>
      <ErrorNotice error={error} />
      <div data-testid="charts" data-steps={steps.length} className="divide-y divide-line">
        {nothing && (
          <div className="p-3">
            <Notice tone="warn" title={nothing} />
          </div>
        )}
        <Chart {...plots.reward} {...common} band={band} height={220} />
        {evaluated.x.length > 0 && <Chart title="Evaluation" unit="mean reward, by set and step" {...evaluated} height={150} />}
        <Chart {...plots.loss} {...common} log={log} height={150} />
        {plots.pairs.map((pair) => (
          <div key={pair[0]?.title} className="grid divide-line sm:grid-cols-2 sm:divide-x">
            {pair.map((plot) => (
              <Chart key={plot.title} {...plot} {...common} log={log} height={110} />
            ))}
          </div>
        ))}
      </div>
    </Panel>
  );
});

/** The live record has steps alone: what they stand at on another axis is asked for, and again while the session lives. */
function useStepsOver(axis: Axis, id: string, recorded: readonly StepMetrics[], isLive: boolean) {
  const { data, error } = useQuery({ ...metricsQuery(id, axis, isLive), enabled: axis !== "step" });
  return useMemo(() => {
    if (axis === "step") return { axis, steps: recorded, x: recorded.map((step) => step.step), error: null };
    return { axis, steps: data ? stepsOf(data) : [], x: data?.x ?? [], error };
  }, [axis, data, error, recorded]);
}
