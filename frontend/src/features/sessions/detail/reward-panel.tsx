// The first question of a run, whether it learns: its reward, with that of its evaluations. The other curves have a page.
import { memo, useMemo } from "react";
import { Link } from "react-router";
import type { Session } from "../../../api/types";
import type { SessionRecord } from "../../../live/record";
import { Chart } from "../../../ui/chart";
import { Notice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { fetchPlots } from "../../../ui/use-plot";
import { recordedPoints } from "../points";
import { noGradientText, rewardChart } from "./step-columns";

fetchPlots();

interface RewardPanelProps {
  session: Session;
  record: SessionRecord;
  /** Without a step here: whether there may be some, still on their way. */
  isLoading: boolean;
}

export const RewardPanel = memo(function RewardPanel({
  session,
  record: { steps, read, evaluations },
  isLoading,
}: RewardPanelProps) {
  const drawn = useMemo(
    () => rewardChart(recordedPoints(steps, read), evaluations, "step"),
    [steps, read, evaluations],
  );
  const nothing = noGradientText(steps[steps.length - 1]);
  const linkOf = (index: number) => {
    const step = drawn.steps[index];
    return step
      ? { to: `/sessions/${session.id}/steps/${String(step)}`, text: `Open step ${String(step)}` }
      : null;
  };
  return (
    <Panel
      title="Learning"
      actions={
        <Link
          to={`/sessions/${session.id}/charts`}
          className="rounded text-xs text-accent hover:underline"
        >
          All charts
        </Link>
      }
    >
      {nothing && (
        <div className="p-3">
          <Notice tone="warn" title={nothing} />
        </div>
      )}
      <div data-testid="charts" data-steps={steps.length}>
        <Chart
          title="Reward"
          {...drawn}
          linkOf={linkOf}
          isLoading={isLoading}
          placeholder={session.policy_version > 0 ? "No steps are kept" : "No step yet"}
          height={220}
        />
      </div>
    </Panel>
  );
});
