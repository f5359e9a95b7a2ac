// The curves of a session in groups that fold, over what the address says.
import { useQuery } from "@tanstack/react-query";
import { memo, useCallback, useMemo } from "react";
import { metricsQuery, stepsOf } from "../../../api/metrics";
import { isExported } from "../../../api/offline";
import { hasEnded } from "../../../api/sessions";
import type { Session, StepMetrics } from "../../../api/types";
import type { SessionRecord } from "../../../live/record";
import { useAddress, withPart } from "../../../ui/address-part";
import { axisOf, type RunAxis } from "../../../ui/chart-axis";
import { ChartControls, isLog } from "../../../ui/chart-controls";
import { Chart, fetchPlots } from "../../../ui/chart";
import { zoomOf, zoomText, type Range } from "../../../ui/chart-zoom";
import { ErrorNotice, Notice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { smoothed, smoothingOf } from "../../../ui/smoothing";
import { ChartGroup } from "./chart-group";
import { foldedGroups } from "./folded-groups";
import { MarkerLegend } from "./marker-legend";
import { GROUPS, REWARD, type Plot } from "./plots";
import { evaluationColumns, lines, noGradientText, rewardBand } from "./step-columns";
import { SavedViews } from "./saved-views";
import { useRunMarkers } from "./use-run-markers";

fetchPlots();

interface ChartsPanelProps {
  session: Session;
  record: SessionRecord;
  /** Without a step here: whether there may be some, still on their way. */
  isLoading: boolean;
}

export const ChartsPanel = memo(function ChartsPanel({ session, record, isLoading }: ChartsPanelProps) {
  const { id } = session;
  const { steps: recorded, evaluations } = record;
  const [address, setAddress] = useAddress();
  const weight = smoothingOf(address);
  const { axis, steps, x, error } = useStepsOver(axisOf(address), id, recorded, !hasEnded(session));
  const { markers, leftOut } = useRunMarkers({ session, record, evaluations, axis, steps, x });
  const evaluated = useMemo(() => evaluationColumns(evaluations), [evaluations]);
  const band = useMemo(() => rewardBand(steps), [steps]);
  const plots = useMemo(() => {
    const drawn = ({ title, unit = "", lines: wanted }: Plot) => ({
      title,
      unit,
      series: lines(steps, wanted).map((line) => ({ ...line, values: smoothed(line.values, weight) })),
    });
    return { reward: drawn(REWARD), groups: GROUPS.map((group) => ({ group, plots: group.plots.map(drawn) })) };
  }, [steps, weight]);
  const nothing = noGradientText(recorded[recorded.length - 1]);
  const linkOf = (index: number) => {
    const step = steps[index]?.step;
    return step === undefined ? null : { to: `/sessions/${id}/steps/${String(step)}`, text: `Open step ${String(step)}` };
  };
  const asked = zoomText(zoomOf(address));
  const zoom = useMemo(() => zoomOf(new URLSearchParams({ zoom: asked })), [asked]);
  const onZoom = useCallback(
    (range: Range | null) => {
      setAddress((before) => withPart(before, "zoom", zoomText(range)), { replace: true });
    },
    [setAddress],
  );
  const placeholder = session.policy_version > 0 ? "No steps are kept" : "No step yet";
  const zooming = { zoom, onZoom };
  const common = { x, axis, ...zooming, isLoading, placeholder, linkOf, markers };
  const log = isLog(address);
  const folded = foldedGroups(address);
  const firstShown = GROUPS.find(({ key }) => !folded.includes(key))?.key;
  return (
    <Panel title="Training" actions={<span className="text-xs text-muted">Drag to zoom, double-click to reset, click for a step</span>}>
      <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-1 border-b border-line px-4 py-1.5">
        <ChartControls />
        {!isExported && <SavedViews isReady={!isLoading} />}
        <MarkerLegend markers={markers} leftOut={leftOut} />
      </div>
      <ErrorNotice error={error} />
      <div data-testid="charts" data-steps={steps.length} className="divide-y divide-line">
        {nothing && (
          <div className="p-3">
            <Notice tone="warn" title={nothing} />
          </div>
        )}
        {plots.groups.map(({ group, plots: drawn }) => (
          <ChartGroup key={group.key} group={group}>
            {group.key === "reward" && (
              <div className="divide-y divide-line sm:col-span-2">
                <Chart {...plots.reward} {...common} hasReadableMarkers={firstShown === "reward"} band={band} height={220} />
                {evaluated.x.length > 0 && <Chart title="Evaluation" unit="mean reward, by set and step" {...evaluated} {...(axis === "step" ? zooming : {})} height={150} />}
              </div>
            )}
            {drawn.map((plot, at) => (
              <Chart key={plot.title} {...plot} {...common} hasReadableMarkers={at === 0 && firstShown === group.key} log={log} height={130} />
            ))}
          </ChartGroup>
        ))}
      </div>
    </Panel>
  );
});

/** The live record has steps alone: what they stand at on another axis is asked for, and again while the session lives. */
function useStepsOver(axis: RunAxis, id: string, recorded: readonly StepMetrics[], isLive: boolean) {
  const { data, error } = useQuery({ ...metricsQuery(id, axis, isLive), enabled: axis !== "step" });
  return useMemo(() => {
    if (axis === "step") return { axis, steps: recorded, x: recorded.map((step) => step.step), error: null };
    return { axis, steps: data ? stepsOf(data) : [], x: data?.x ?? [], error };
  }, [axis, data, error, recorded]);
}
