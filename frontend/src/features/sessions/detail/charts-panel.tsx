// The curves of a session, over steps.
import { memo, useMemo } from "react";
import type { Evaluation, StepMetrics } from "../../../api/types";
import { Chart } from "../../../ui/chart";
import { Notice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
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
  steps: readonly StepMetrics[];
  evaluations: readonly Evaluation[];
  /** Steps that the session has done: more than there are here means that the record is still on its way. */
  done: number;
}

export const ChartsPanel = memo(function ChartsPanel({ steps, evaluations, done }: ChartsPanelProps) {
  const x = useMemo(() => steps.map((step) => step.step), [steps]);
  const evaluated = useMemo(() => evaluationColumns(evaluations), [evaluations]);
  const band = useMemo(() => rewardBand(steps), [steps]);
  const plots = useMemo(() => ({ reward: drawn(REWARD, steps), loss: drawn(LOSS, steps), pairs: PAIRS.map((pair) => pair.map((plot) => drawn(plot, steps))) }), [steps]);
  const nothing = noGradientText(steps[steps.length - 1]);
  const common = { x, placeholder: done > 0 ? "Loading the record…" : "No step yet" };
  return (
    <Panel title="Training" actions={<span className="text-xs text-muted">Drag to zoom, double-click to reset</span>}>
      <div data-testid="charts" data-steps={steps.length} className="divide-y divide-line">
        {nothing && (
          <div className="p-3">
            <Notice tone="warn" title={nothing} />
          </div>
        )}
        <Chart {...plots.reward} {...common} band={band} height={220} />
        {evaluated.x.length > 0 && <Chart title="Evaluation" unit="mean reward, by set" {...evaluated} height={150} />}
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

function drawn({ title, unit = "", lines: wanted }: Plot, steps: readonly StepMetrics[]) {
  return { title, unit, series: lines(steps, wanted) };
}
