// A run as somebody reads it who was sent a link: its numbers, its curves, its episodes down to the token.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useLocation, useSearchParams } from "react-router";
import {
  sharedEpisodesQuery,
  sharedFinerQuery,
  sharedMetricsQuery,
  sharedRunQuery,
} from "../../../api/sharing";
import { ENDED_STATES, isRefused } from "../../../api/sessions";
import type { SharedRun } from "../../../api/types";
import { Chart } from "../../../ui/chart";
import type { Range } from "../../../ui/chart-zoom";
import { dateTime, number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty, Panel } from "../../../ui/panel";
import { visible } from "../../../ui/plain-text";
import { useTitle } from "../../../ui/use-title";
import { UserText } from "../../../ui/user-text";
import { Wordmark } from "../../../ui/wordmark";
import { fetchPlots } from "../../../ui/use-plot";
import { PlotGrid } from "../detail/plot-grid";
import { MAIN } from "../detail/plots";
import { lines, rewardChart } from "../detail/step-columns";
import { EpisodesTable } from "../episodes/episodes-table";
import { Facts } from "../episodes/facts";
import { isCoarse, pointsOf, withFiner } from "../points";
import { StateBadge } from "../state-badge";
import { useOnEnd } from "../use-on-end";
import { SharedEpisode } from "./shared-episode";
import { rememberToken, tokenOf } from "./shared-token";

fetchPlots();

export function SharedPage() {
  const token = tokenOf(useLocation().hash);
  useEffect(() => {
    rememberToken(token);
  }, [token]);
  const { data: run, error } = useQuery({ ...sharedRunQuery(token), enabled: token !== "" });
  const [address] = useSearchParams();
  const episode = address.get("episode");
  useTitle(run ? visible(run.name) || "Shared run" : "Shared run");
  return (
    <div className="min-h-screen">
      <header className="border-b border-line bg-surface">
        <div className="mx-auto flex h-12 max-w-7xl items-center gap-4 px-6">
          <Wordmark />
          <span className="ml-auto truncate text-xs text-muted">
            {run &&
              (isRefused(error)
                ? "Read-only link, no longer valid"
                : `Read-only link, until ${dateTime(run.expires_at)}`)}
          </span>
        </div>
      </header>
      <main className="mx-auto max-w-7xl px-6 py-6">
        {token === "" && (
          <Empty isPage title="This link is not complete">
            Its part after # is missing: ask for the whole link.
          </Empty>
        )}
        {error && !run && (
          <Empty isPage title="This link cannot be read">
            <ErrorNotice error={error} />
          </Empty>
        )}
        {token !== "" && !run && !error && <Loading />}
        {run && error && (
          <div className="mb-4">
            <ErrorNotice error={error} />
          </div>
        )}
        {run && <Run token={token} run={run} episode={episode} isErrorShown={error !== null} />}
      </main>
    </div>
  );
}

interface RunProps {
  token: string;
  run: SharedRun;
  /** An error of the link as a whole stands over the run already. */
  isErrorShown: boolean;
}

function Run({ token, run, episode, isErrorShown }: RunProps & { episode: string | null }) {
  const facts: [string, string][] = [
    ["Steps", number(run.policy_version)],
    ["Reward", number(run.reward_mean)],
    ["Episodes", number(run.accounting.begun)],
    ["Base model", run.base_model],
    ["Loss", run.config.loss],
    ["Tasks × attempts", `${number(run.config.tasks_per_batch)} × ${number(run.config.grpo_n)}`],
    ["Max tokens", number(run.config.max_tokens)],
    ["Created", dateTime(run.created_at)],
  ];
  return (
    <>
      <div className="flex flex-wrap items-center gap-3">
        <h1 className="min-w-0 text-xl font-semibold tracking-tight break-words">
          <UserText text={run.name || "A run"} />
        </h1>
        <StateBadge state={run.state} />
      </div>
      <Facts facts={facts} />
      <div className="mt-4 space-y-4">
        {episode ? (
          <SharedEpisode key={episode} token={token} episodeId={episode} />
        ) : (
          <Overview token={token} run={run} isErrorShown={isErrorShown} />
        )}
      </div>
    </>
  );
}

function Overview({ token, run, isErrorShown }: RunProps) {
  const { hash } = useLocation();
  const metrics = useQuery(sharedMetricsQuery(token, run.state));
  useOnEnd(!ENDED_STATES.includes(run.state), () => void metrics.refetch());
  const { data, error, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery(
    sharedEpisodesQuery(token),
  );
  const episodes = useMemo(() => data?.pages.flatMap((page) => page.items) ?? [], [data]);
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const [zoom, setZoom] = useState<Range | null>(null);
  const whole = useMemo(() => pointsOf(metrics.data), [metrics.data]);
  const finer = useQuery(sharedFinerQuery(token, isCoarse(whole) ? zoom : null));
  const drawn = useMemo(() => {
    const points = withFiner(whole, finer.data, zoom);
    return {
      x: [...points.x],
      reward: rewardChart(points, [], "step"),
      charts: MAIN.map(({ title, unit = "", lines: wanted }) => ({
        title,
        unit,
        series: lines(points, wanted),
      })),
    };
  }, [whole, finer.data, zoom]);
  return (
    <>
      <ErrorNotice error={isErrorShown ? null : (metrics.error ?? finer.error ?? error)} />
      <Panel
        title="Training"
        actions={<span className="text-xs text-muted">Drag to zoom, double-click to reset</span>}
      >
        <PlotGrid plots={drawn.charts} common={{ x: drawn.x, height: 120, zoom, onZoom: setZoom }}>
          <div className="sm:col-span-2">
            <Chart title="Reward" {...drawn.reward} zoom={zoom} onZoom={setZoom} height={220} />
          </div>
        </PlotGrid>
      </Panel>
      {episodes.length > 0 && (
        <EpisodesTable
          episodes={episodes}
          pathOf={(one) => `/shared?episode=${encodeURIComponent(one.episode_id)}${hash}`}
          onEnd={onEnd}
          place={`shared ${run.name}`}
        />
      )}
      {data && episodes.length === 0 && <Empty title="No episode yet" />}
    </>
  );
}
