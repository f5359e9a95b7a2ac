// The curves of a run, live, over what the address says: those that matter most, and the others in groups that open.
import { memo, useCallback, useMemo } from "react";
import { isExported } from "../../../api/offline";
import type { Session } from "../../../api/types";
import type { SessionRecord } from "../../../live/record";
import { useAddress } from "../../../ui/address-part";
import { Button } from "../../../ui/button";
import { Chart } from "../../../ui/chart";
import { axisOf, zoomOf, zoomText, type Range } from "../../../ui/chart-axis";
import { ChartControls, isLog } from "../../../ui/chart-controls";
import type { Marker } from "../../../ui/chart-markers";
import { number } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { useSmoothing } from "../../../ui/smoothing";
import { fetchPlots } from "../../../ui/use-plot";
import { isCoarse, ownNames, type Points } from "../points";
import { RunPage } from "../run-page";
import { ChartGroup, openGroups, withOpen } from "./chart-group";
import { PlotGrid } from "./plot-grid";
import { GROUPS, MAIN, OWN_GROUP, ownPlots, type Plot } from "./plots";
import { MARKER_KINDS } from "./run-markers";
import { SavedViews } from "./saved-views";
import { lines, measuredPlots, rewardChart } from "./step-columns";
import { useLiveRun } from "./use-live-run";
import { usePoints, useRunMarkers } from "./use-points";

export function ChartsPage() {
  return <RunPage title="Charts" of={Charts} />;
}

fetchPlots();

function Charts({ session }: { session: Session }) {
  const { record, isLoaded } = useLiveRun(session.id);
  return <ChartsPanel session={session} record={record} isLoading={!isLoaded} />;
}

interface ChartsPanelProps {
  session: Session;
  record: SessionRecord;
  /** Without a step here: whether there may be some, still on their way. */
  isLoading: boolean;
}

const ChartsPanel = memo(function ChartsPanel({ session, record, isLoading }: ChartsPanelProps) {
  const { id } = session;
  const { steps: recorded, evaluations } = record;
  const [address, setAddress] = useAddress();
  const smoothing = useSmoothing();
  const { weight } = smoothing;
  const axis = axisOf(address);
  const asked = zoomText(zoomOf(address));
  const zoom = useMemo(() => zoomOf(new URLSearchParams({ zoom: asked })), [asked]);
  const onZoom = useCallback(
    (range: Range | null) => {
      setAddress({ zoom: zoomText(range) });
    },
    [setAddress],
  );
  const { points, whole, error } = usePoints(axis, session, record, zoom);
  const { steps } = points;
  const x = useMemo(() => [...points.x], [points]);
  const { markers, leftOut } = useRunMarkers({ session, record, evaluations, axis, steps, x });
  const reward = useMemo(
    () => rewardChart(points, evaluations, axis, weight),
    [points, evaluations, axis, weight],
  );
  const open = openGroups(address).join(",");
  const groups = useMemo(() => groupsOf(whole), [whole]);
  const plots = useMemo(() => {
    const drawn = ({ title, unit = "", lines: wanted }: Plot) => ({
      title,
      unit,
      series: lines(points, wanted, weight),
    });
    const shown = groups.filter(({ key }) => open.split(",").includes(key));
    return {
      main: measuredPlots(MAIN, whole).map(drawn),
      groups: new Map(shown.map(({ key, plots: wanted }) => [key, wanted.map(drawn)])),
    };
  }, [points, whole, weight, groups, open]);
  const linkTo = (step: number | undefined) =>
    step
      ? { to: `/sessions/${id}/steps/${String(step)}`, text: `Open step ${String(step)}` }
      : null;
  const placeholder = session.policy_version > 0 ? "No steps are kept" : "No step yet";
  const common = { axis, zoom, onZoom, isLoading, placeholder, markers };
  const others = {
    ...common,
    x,
    log: isLog(address),
    height: 130,
    linkOf: (index: number) => linkTo(steps[index]?.step),
  };
  const closed = groups.filter(({ key }) => !plots.groups.has(key));
  return (
    <Panel
      title="Training"
      actions={
        <span className="text-xs text-muted">
          Drag to zoom, double-click to reset, click for a step
        </span>
      }
    >
      <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-1 border-b border-line px-4 py-1.5">
        <ChartControls smoothing={smoothing} />
        {!isExported && <SavedViews isReady={!isLoading} />}
        <MarkerLegend markers={markers} leftOut={leftOut} />
      </div>
      <ErrorNotice error={error} />
      <div data-testid="charts" data-steps={steps.length} className="divide-y divide-line">
        {isCoarse(whole) && (
          <p className="px-4 py-1.5 text-xs text-muted">
            {coarseText(recorded[recorded.length - 1]?.step ?? 0, whole.x.length)}
          </p>
        )}
        <PlotGrid plots={plots.main} common={others}>
          <div className="sm:col-span-2">
            <Chart
              title="Reward"
              {...common}
              {...reward}
              linkOf={(index) => linkTo(reward.steps[index])}
              hasReadableMarkers
              height={220}
            />
          </div>
        </PlotGrid>
        {groups.map((group) => (
          <ChartGroup key={group.key} group={group} count={group.plots.length}>
            <PlotGrid plots={plots.groups.get(group.key) ?? []} common={others} />
          </ChartGroup>
        ))}
        <div className="px-3 py-1.5 print:hidden">
          <Button
            look="quiet"
            className="h-7! text-xs"
            onClick={() => {
              const keys = groups.map(({ key }) => key);
              setAddress((before) => withOpen(before, keys, closed.length > 0));
            }}
          >
            {closed.length > 0
              ? `Show all ${number(plots.main.length + 1 + groups.reduce((sum, group) => sum + group.plots.length, 0))} charts`
              : "Show the first charts"}
          </Button>
        </div>
      </div>
    </Panel>
  );
});

/** Those with a plot, and of them what was measured. */
function groupsOf(whole: Points) {
  const own = ownPlots(ownNames(whole.steps));
  return GROUPS.map((group) => ({
    ...group,
    plots: measuredPlots(group === OWN_GROUP ? own : group.plots, whole),
  })).filter(({ plots }) => plots.length > 0);
}

function coarseText(steps: number, points: number): string {
  return `Each point is the last of about ${number(Math.max(2, Math.round(steps / Math.max(points, 1))))} steps; shaded: from their lowest to their highest value. Zoom in for single steps.`;
}

/** What the marks of the charts mean: of those that there are. */
function MarkerLegend({ markers, leftOut }: { markers: readonly Marker[]; leftOut: number }) {
  const counted = MARKER_KINDS.map((look) => ({
    ...look,
    count: markers.filter(({ kind }) => kind === look.kind).length,
  })).filter(({ count }) => count > 0);
  if (counted.length === 0) return null;
  return (
    <ul
      aria-label="Marks on the charts"
      className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-muted"
    >
      {counted.map(({ kind, name, colour, count }) => (
        <li key={kind} className="inline-flex items-center gap-1.5">
          <span aria-hidden className="h-3 w-0.5" style={{ background: `var(${colour})` }} />
          {name} <span className="tabular-nums">{number(count)}</span>
        </li>
      ))}
      {leftOut > 0 && <li>{number(leftOut)} more are left out, evenly over the run’s length</li>}
    </ul>
  );
}
