// The curves of a session, over what the address says.
import { useQuery } from "@tanstack/react-query";
import { memo, useMemo } from "react";
import { useSearchParams } from "react-router";
import { metricsQuery, stepsOf } from "../../../api/metrics";
import type { Evaluation, StepMetrics } from "../../../api/types";
import { axisOf, type Axis } from "../../../ui/chart-axis";
import { ChartControls } from "../../../ui/chart-controls";
import { Chart } from "../../../ui/chart";
import { ErrorNotice, Notice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { smoothed, smoothingOf } from "../../../ui/smoothing";
import { evaluationColumns, lines, noGradientText, rewardBand, type Line } from "./step-columns";

interface Plot {
  title: string;
  unit?: string;
  lines: Line[];
}

const PAIRS: Plot[][] = [
  [
    { title: "Gradient norm", lines: [["norm", "grad_norm"]] },
    { title: "KL engine to trainer", lines: [["KL", "kl_engine"]] },
  ],
  [
    { title: "Entropy", unit: "nats per token", lines: [["entropy", "entropy"]] },
    { title: "Clipped tokens", unit: "share", lines: [["clipped", "clip_fraction"]] },
  ],
  [
    { title: "Completion length", unit: "tokens", lines: [["length", "completion_length_mean"]] },
    {
      title: "Step time",
      unit: "s",
      lines: [
        ["rollout", "rollout_s"],
        ["train", "train_s", "--series-2"],
        ["handover", "handover_s", "--series-3"],
      ],
    },
  ],
  [
    {
      title: "Tokens",
      lines: [
        ["trained", "tokens_trained"],
        ["computed", "tokens_computed", "--series-2"],
      ],
    },
    {
      title: "Groups",
      lines: [
        ["all", "groups"],
        ["equal rewards", "groups_skipped", "--series-2"],
        ["set aside", "groups_replaced", "--series-3"],
      ],
    },
  ],
  [
    { title: "Staleness", unit: "versions, oldest", lines: [["staleness", "staleness_max"]] },
    { title: "Learning rate", lines: [["rate", "learning_rate"]] },
  ],
];
const REWARD: Plot = { title: "Reward", unit: "mean, 10th to 90th percentile", lines: [["reward", "reward_mean"]] };
const LOSS: Plot = { title: "Loss", lines: [["loss", "loss", "--series-2"]] };

interface ChartsPanelProps {
  id: string;
  steps: readonly StepMetrics[];
  evaluations: readonly Evaluation[];
  /** Steps that the session has done: more than there are here means that the record is still on its way. */
  done: number;
  isLive: boolean;
}

export const ChartsPanel = memo(function ChartsPanel({ id, steps: recorded, evaluations, done, isLive }: ChartsPanelProps) {
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
  const common = { x, axis, placeholder: done > 0 ? "Loading the record…" : "No step yet" };
  return (
    <Panel title="Training" actions={<span className="text-xs text-muted">Drag to zoom, double-click to reset</span>}>
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
        <Chart {...plots.loss} {...common} height={150} />
        {plots.pairs.map((pair) => (
          <div key={pair[0]?.title} className="grid divide-line sm:grid-cols-2 sm:divide-x">
            {pair.map((plot) => (
              <Chart key={plot.title} {...plot} {...common} height={110} />
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
