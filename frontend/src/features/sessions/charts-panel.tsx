// The curves of a session, over steps.
import { useMemo } from "react";
import type { StepMetrics } from "../../api/types";
import { Chart } from "../../ui/chart";
import { Panel } from "../../ui/panel";

type Measure = Exclude<keyof StepMetrics, "step">;

export function ChartsPanel({ steps }: { steps: readonly StepMetrics[] }) {
  const x = useMemo(() => steps.map((step) => step.step), [steps]);
  const column = (measure: Measure) => steps.map((step) => step[measure]);
  const line = (label: string, measure: Measure, colour = "--series-1") => ({ label, values: column(measure), colour });
  const band = {
    label: "one standard deviation",
    low: steps.map((step) => step.reward_mean - step.reward_std),
    high: steps.map((step) => step.reward_mean + step.reward_std),
  };
  return (
    <Panel title="Training" aside={<span className="text-xs text-muted">Drag to zoom, double-click to reset</span>}>
      <div data-testid="charts" data-steps={steps.length} className="divide-y divide-line">
        <Chart title="Reward" unit="mean ± standard deviation" x={x} series={[line("reward", "reward_mean")]} band={band} height={220} />
        <Chart title="Loss" x={x} series={[line("loss", "loss", "--series-2")]} height={150} />
        <div className="grid grid-cols-2 divide-x divide-line">
          <Chart title="Gradient norm" x={x} series={[line("norm", "grad_norm")]} height={110} />
          <Chart title="KL engine to trainer" x={x} series={[line("KL", "kl_engine")]} height={110} />
        </div>
        <div className="grid grid-cols-2 divide-x divide-line">
          <Chart title="Completion length" unit="tokens" x={x} series={[line("length", "completion_length_mean")]} height={110} />
          <Chart
            title="Step time"
            unit="s"
            x={x}
            series={[line("rollout", "rollout_s"), line("train", "train_s", "--series-2"), line("handover", "handover_s", "--series-3")]}
            height={110}
          />
        </div>
      </div>
    </Panel>
  );
}
