// A run as somebody reads it who was sent a link: its numbers, its curves, its episodes down to the token.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useLocation, useSearchParams, Link } from "react-router";
import { ENDED_STATES, isRefused } from "../../../api/sessions";
import {
  sharedEpisodesQuery,
  sharedFinerQuery,
  sharedMetricsQuery,
  sharedRunQuery,
  sharedTimelinesQuery,
} from "../../../api/sharing";
import type { SharedRun } from "../../../api/types";
import { Chart } from "../../../ui/chart";
import type { Range } from "../../../ui/chart-axis";
import { dateTime, number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty, Panel } from "../../../ui/panel";
import { visible, UserText } from "../../../ui/plain-text";
import { fetchPlots } from "../../../ui/use-plot";
import { useTitle } from "../../../ui/use-title";
import { Wordmark } from "../../../ui/wordmark";
import { PlotGrid } from "../detail/plot-grid";
import { MAIN } from "../detail/plots";
import { lines, rewardChart } from "../detail/step-columns";
import { EpisodeViews } from "../episodes/episode-views";
import { EpisodesTable } from "../episodes/episodes-table";
import { Facts } from "../../../ui/fact";
import { nameOf } from "../episodes/first-line";
import { useTokens } from "../episodes/use-tokens";
import { isCoarse, pointsOf, withFiner } from "../points";
import { StateBadge } from "../state-badge";
import { useOnEnd } from "../use-on-end";
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

/** One episode of the run, down to the token. */
function SharedEpisode({ token, episodeId }: { token: string; episodeId: string }) {
  const tokens = useTokens((start) => sharedTimelinesQuery(token, episodeId, start), episodeId);
  const { loaded: told, error } = tokens;
  return (
    <>
      <nav aria-label="Where this is" className="text-xs">
        <Link to={`/shared#${token}`} className="rounded text-accent underline underline-offset-2">
          The run
        </Link>
      </nav>
      <ErrorNotice error={error} />
      {!told && !error && <Loading />}
      {told && (
        <>
          <h2 className="font-semibold break-words">
            <UserText text={nameOf(told.episode)} />
            <span className="ml-3 font-normal text-muted tabular-nums">
              reward {number(told.episode.reward)}
            </span>
          </h2>
          <EpisodeViews tokens={tokens} loaded={told} />
        </>
      )}
    </>
  );
}
