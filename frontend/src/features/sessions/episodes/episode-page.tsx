// One episode, down to the token. The address holds the chosen token, the colours, and the list that it was opened from.
import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { Link, useLocation, useNavigate, useParams, useSearchParams } from "react-router";
import { neighboursQuery, timelinesQuery } from "../../../api/episodes";
import { isExported } from "../../../api/offline";
import { hasEnded, sessionQuery } from "../../../api/sessions";
import type { Episode, EpisodeNeighbours, EpisodeTimelines } from "../../../api/types";
import { ButtonLink } from "../../../ui/button";
import { CopyText } from "../../../ui/copy";
import { Facts } from "./facts";
import { number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice, Notice } from "../../../ui/notice";
import { useTitle } from "../../../ui/use-title";
import { EpisodeSide } from "./episode-side";
import { filterOf, listPart } from "./episode-filter";
import { GroupNeighbours } from "./group-neighbours";
import { FateBadge } from "./fate-badge";
import { EpisodeViews } from "./episode-views";
import { groupName, nameOf } from "./first-line";
import { groupPath, stepPath } from "./places";
import { PreviousNext } from "./previous-next";
import { visible } from "../../../ui/plain-text";
import { UserText } from "../../../ui/user-text";
import { RefusedCalls } from "./refused-calls";
import { SessionCrumb } from "../session-crumb";
import { useTokens } from "./use-tokens";
import { useMayWrite } from "../../../use-may-write";

export function episodeWarm(
  client: QueryClient,
  { id = "", episodeId = "" }: { id?: string; episodeId?: string },
): Promise<unknown> {
  return Promise.all([
    client.prefetchQuery(sessionQuery(id)),
    client.prefetchInfiniteQuery(timelinesQuery(id, episodeId)),
  ]);
}

export function EpisodePage() {
  const { id = "", episodeId = "", step, group } = useParams();
  const [address] = useSearchParams();
  const session = useQuery(sessionQuery(id)).data;
  const mayWrite = useMayWrite();
  const tokens = useTokens((start) => timelinesQuery(id, episodeId, start), episodeId);
  const { loaded, error } = tokens;
  useTitle(loaded ? visible(nameOf(loaded.episode)) : "Episode");
  return (
    <>
      {step !== undefined && group !== undefined ? (
        <>
          <SessionCrumb
            session={session}
            id={id}
            trail={[episodeId]}
            above={[
              [`Step ${step}`, stepPath(id, step)],
              [
                loaded
                  ? groupName({
                      task: loaded.episode.task,
                      group_key: group,
                      episodes: [loaded.episode],
                    })
                  : group,
                groupPath(id, step, group),
              ],
            ]}
          />
          <GroupNeighbours id={id} step={step} groupKey={group} episodeId={episodeId} />
        </>
      ) : (
        <>
          <SessionCrumb session={session} id={id} trail={[episodeId]} list={listPart(address)} />
          <Neighbours id={id} episodeId={episodeId} />
        </>
      )}
      {!loaded && !error && <Loading />}
      {error && <Unreadable error={error} id={id} list={listPart(address)} />}
      {loaded && (
        <>
          <EpisodeHeader id={id} episode={loaded.episode} />
          {loaded.episode.warning && (
            <div className="mt-4">
              <Notice tone="warn" title="Something looks wrong with how its calls are made">
                {visible(loaded.episode.warning)}
              </Notice>
            </div>
          )}
          <RefusedCalls refused={loaded.episode.refused} />
          <div className="mt-4 grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_20rem]">
            <div className="min-w-0">
              <EpisodeViews key={episodeId} tokens={tokens} loaded={loaded} />
            </div>
            <EpisodeSide
              id={id}
              loaded={loaded}
              mayErase={
                mayWrite &&
                session !== undefined &&
                (session.state === "ready" || hasEnded(session))
              }
            />
          </div>
        </>
      )}
    </>
  );
}

function Unreadable({ error, id, list }: { error: Error; id: string; list: string }) {
  return (
    <div className="space-y-3">
      <ErrorNotice error={error} />
      <ButtonLink to={`/sessions/${id}/episodes${list}`}>All episodes</ButtonLink>
    </div>
  );
}

function EpisodeHeader({ id, episode }: { id: string; episode: EpisodeTimelines["episode"] }) {
  const mayAsk = useMayWrite();
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <h1 className="min-w-0 text-xl font-semibold tracking-tight wrap-anywhere">
          <UserText text={nameOf(episode)} />
        </h1>
        <CopyText label="the episode's id" text={episode.episode_id} />
        <FateBadge episode={episode} />
        {episode.reason && <span className="text-muted">{visible(episode.reason)}</span>}
        {!isExported && mayAsk && (
          <ButtonLink to={`/playground?episode=${id}/${episode.episode_id}`}>
            Ask again in the playground
          </ButtonLink>
        )}
      </div>
      <Facts
        facts={[
          ["Reward", number(episode.reward)],
          ["Advantage", number(episode.advantage)],
          ["Versions", versions(episode)],
          [
            "Trained in",
            episode.trained_step === null ? (
              "–"
            ) : (
              <Link
                className="rounded text-accent hover:underline"
                to={
                  episode.group_key === null
                    ? stepPath(id, episode.trained_step)
                    : groupPath(id, episode.trained_step, episode.group_key)
                }
              >
                step {episode.trained_step}
              </Link>
            ),
          ],
          ["Calls", number(episode.calls)],
          ["Sampled tokens", number(episode.sampled_tokens)],
          ["Timelines", number(episode.timelines)],
          ["Mean log-prob.", number(episode.logprob_mean)],
        ]}
      />
    </>
  );
}

function versions({ policy_version_first: first, policy_version_last: last }: Episode): string {
  if (first === null) return "–";
  return first === last ? String(first) : `${String(first)}–${String(last)}`;
}

/** J and K, and the same as buttons: through the list that stands in the address, after a reload and from a link too. */
function Neighbours({ id, episodeId }: { id: string; episodeId: string }) {
  const [address] = useSearchParams();
  const navigate = useNavigate();
  const client = useQueryClient();
  const came = useLocation().state as Partial<EpisodeNeighbours> | null; // while the neighbours are asked for: the one it came from
  const filter = useMemo(() => filterOf(address), [address]);
  const { data } = useQuery(neighboursQuery(id, episodeId, filter));
  const { previous, next } = data ?? { previous: came?.previous, next: came?.next };
  useEffect(() => {
    for (const beside of [data?.previous, data?.next])
      if (beside) void client.prefetchQuery(neighboursQuery(id, beside, filter));
  }, [client, id, data, filter]);
  const onGo = (to: string) => {
    const kept = new URLSearchParams(address);
    for (const name of ["token", "line"]) kept.delete(name);
    void navigate(
      { pathname: `/sessions/${id}/episodes/${to}`, search: kept.toString() },
      { state: to === next ? { previous: episodeId } : { next: episodeId } },
    );
  };
  return (
    <div className="flex items-center gap-2 max-sm:my-2 sm:float-right">
      <PreviousNext previous={previous} next={next} onGo={onGo} />
    </div>
  );
}
