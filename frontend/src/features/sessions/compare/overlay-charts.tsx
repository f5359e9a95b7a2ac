// The curves of the runs, one colour each, over what the address says.
import { useQueries, type UseQueryResult } from "@tanstack/react-query";
import { useMemo } from "react";
import {
  finerQuery,
  lastMeasuresQuery,
  metricsQuery,
  type LastMeasures,
} from "../../../api/metrics";
import { hasEnded } from "../../../api/sessions";
import type { Evaluation, MetricColumns, Session } from "../../../api/types";
import { useAddress } from "../../../ui/address-part";
import { axisOf, zoomOf, zoomText, type Range } from "../../../ui/chart-axis";
import { Chart } from "../../../ui/chart";
import { ChartControls, isLog } from "../../../ui/chart-controls";
import { overlaid, type Series } from "../../../ui/chart-data";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { visible } from "../../../ui/plain-text";
import { useSmoothing } from "../../../ui/smoothing";
import { fetchPlots } from "../../../ui/use-plot";
import { PlotGrid } from "../detail/plot-grid";
import { lines, measuredPlots, type Measure } from "../detail/step-columns";
import { pointsOf, withFiner, type Points } from "../points";

fetchPlots();

export interface Compared {
  session: Session;
  name: string;
  colour: string;
}

/** Beside the reward. */
const MEASURES: { measure: Measure; title: string; unit?: string }[] = [
  { measure: "loss", title: "Loss" },
  { measure: "entropy", title: "Entropy", unit: "nats per token" },
  { measure: "kl_engine", title: "KL engine to trainer" },
  { measure: "grad_norm", title: "Gradient norm" },
  { measure: "clip_fraction", title: "Clipped tokens", unit: "share" },
  { measure: "completion_length_mean", title: "Completion length", unit: "tokens" },
  { measure: "train_s", title: "Training time", unit: "s a step" },
];

export function OverlayCharts({ runs }: { runs: readonly Compared[] }) {
  const [address, setAddress] = useAddress();
  const axis = axisOf(address);
  const smoothing = useSmoothing();
  const { weight } = smoothing;
  const log = isLog(address);
  const asked = zoomText(zoomOf(address));
  const zoom = useMemo(() => zoomOf(new URLSearchParams({ zoom: asked })), [asked]);
  const { columns, errors, pending } = useQueries({
    queries: runs.map(({ session }) => metricsQuery(session.id, axis, !hasEnded(session))),
    combine: together,
  });
  const isPut = (at: number) => (columns[at]?.x.length ?? 0) < (columns[at]?.steps_in_all ?? 0);
  const { columns: finer } = useQueries({
    queries: runs.map(({ session }, at) =>
      finerQuery(session.id, axis, isPut(at) ? zoom : null, !hasEnded(session)),
    ),
    combine: together,
  });
  const points = useMemo(
    () => columns.map((one, at) => withFiner(pointsOf(one), finer[at], zoom)),
    [columns, finer, zoom],
  );
  const onZoom = (range: Range | null) => {
    setAddress({ zoom: zoomText(range) });
  };
  // All of these stay the same until new data comes: a chart is drawn anew only then.
  const reward = useMemo(
    () => overlay("reward_mean", runs, points, weight),
    [runs, points, weight],
  );
  const plots = useMemo(
    () =>
      measuredOf(points, pending).map(({ title, unit = "", measure }) => ({
        title,
        unit,
        ...overlay(measure, runs, points, weight),
      })),
    [runs, points, pending, weight],
  );
  const stepCount = Math.max(0, ...columns.map((one) => one?.steps_in_all ?? 0));
  return (
    <Panel
      title="Curves"
      actions={<span className="text-xs text-muted">Drag to zoom, double-click to reset</span>}
    >
      <div className="border-b border-line px-4 py-1.5">
        <ChartControls smoothing={smoothing} />
      </div>
      <ErrorNotice error={errors[0] ?? null} />
      <div data-testid="overlay" data-steps={stepCount} className="divide-y divide-line">
        <Chart
          title="Reward"
          unit="mean"
          overlay
          {...reward}
          {...{ axis, zoom, onZoom }}
          height={240}
          isLoading={pending}
        />
        <EvaluationChart runs={runs} />
        <PlotGrid
          plots={plots}
          common={{
            x: [],
            overlay: true,
            log,
            axis,
            zoom,
            onZoom,
            height: 130,
            isLoading: pending,
          }}
        />
      </div>
    </Panel>
  );
}

/** Outside of the component: as the same function it keeps its result while the answers are the same. */
function together(answers: UseQueryResult<MetricColumns>[]) {
  return {
    columns: answers.map((answer) => answer.data),
    errors: answers.flatMap((answer) => (answer.error ? [answer.error] : [])),
    pending: answers.some((answer) => answer.isPending),
  };
}

function played(answers: UseQueryResult<LastMeasures>[]): Evaluation[][] {
  return answers.map((answer) => answer.data?.played ?? []);
}

/** Those that some run has a value of; all while steps are on their way. */
function measuredOf(points: readonly Points[], isPending: boolean) {
  const withSteps = points.filter(({ steps }) => steps.length > 0);
  if (withSteps.length === 0) return isPending ? MEASURES : [];
  return MEASURES.filter(({ title, measure }) =>
    withSteps.some((one) => measuredPlots([{ lines: [[title, measure]] }], one).length > 0),
  );
}

/** A measure of every run over the places of all: of each run its line, and what stands behind it. */
function overlay(
  measure: Measure,
  runs: readonly Compared[],
  points: readonly Points[],
  weight: number,
): { x: number[]; series: Series[] } {
  const curves = points.map((one) => lines(one, [[measure, measure]], weight)[0]);
  const parts = curves.map((curve) => [
    curve?.values ?? [],
    curve?.raw ?? [],
    curve?.low ?? [],
    curve?.high ?? [],
  ]);
  const { x, columns } = overlaid(
    parts.flatMap((some, at) => some.map((values) => ({ x: points[at]?.x ?? [], values }))),
  );
  const series = runs.map((run, at): Series => {
    const [values = [], raw = [], low = [], high = []] = columns.slice(4 * at, 4 * at + 4);
    const curve = curves[at];
    return {
      label: run.name,
      colour: run.colour,
      values,
      ...(curve?.raw && { raw }),
      ...(curve?.low && { low, high }),
    };
  });
  return { x, series };
}

/** One chart for each set of tasks that any of the runs was evaluated on, over the policy version. */
function EvaluationChart({ runs }: { runs: readonly Compared[] }) {
  const every = useQueries({
    queries: runs.map(({ session }) => lastMeasuresQuery(session.id, !hasEnded(session))),
    combine: played,
  });
  const sets = [...new Set(every.flat().map((one) => one.name))].sort();
  return sets.map((set) => <SetChart key={set} set={set} runs={runs} every={every} />);
}

function SetChart({
  set,
  runs,
  every,
}: {
  set: string;
  runs: readonly Compared[];
  every: readonly Evaluation[][];
}) {
  const drawn = useMemo(() => {
    const { x, columns } = overlaid(
      every.map((all) => {
        // Of a repeated evaluation the last counts.
        const points = [
          ...new Map(
            all.filter((one) => one.name === set).map((one) => [one.step, one.reward_mean]),
          ),
        ].sort(([a], [b]) => a - b);
        return { x: points.map(([step]) => step), values: points.map(([, reward]) => reward) };
      }),
    );
    return {
      x,
      series: runs.map((run, at): Series => ({
        label: run.name,
        colour: run.colour,
        values: columns[at] ?? [],
      })),
    };
  }, [set, runs, every]);
  return (
    <Chart
      title={`Evaluation ${visible(set)}`}
      unit="mean reward, by step"
      overlay
      {...drawn}
      height={150}
    />
  );
}
