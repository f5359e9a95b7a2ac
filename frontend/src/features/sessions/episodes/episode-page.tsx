// One episode, down to the token. The address holds the chosen token, the colours, and the list that it was opened from.
import { useQuery, type QueryClient } from "@tanstack/react-query";
import { Link, useParams, useSearchParams } from "react-router";
import { timelinesQuery } from "../../../api/episodes";
import { isExported } from "../../../api/offline";
import { hasEnded, sessionQuery } from "../../../api/sessions";
import type { Episode, EpisodeTimelines } from "../../../api/types";
import { ButtonLink } from "../../../ui/button";
import { CopyText } from "../../../ui/copy";
import { number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice, Notice } from "../../../ui/notice";
import { visible, UserText } from "../../../ui/plain-text";
import { useTitle } from "../../../ui/use-title";
import { useMayWrite } from "../../../use-may-write";
import { SessionCrumb } from "../session-crumb";
import { listPart } from "./episode-filter";
import { EpisodeSide } from "./episode-side";
import { EpisodeViews } from "./episode-views";
import { Facts } from "../../../ui/fact";
import { FateBadge } from "./fate-badge";
import { groupName, nameOf } from "./first-line";
import { GroupNeighbours, ListNeighbours } from "./neighbours";
import { groupPath, stepPath } from "./places";
import { useTokens } from "./use-tokens";

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
          <ListNeighbours id={id} episodeId={episodeId} />
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

/** How many of its calls were refused, and the last messages, the latest first. */
export function RefusedCalls({
  refused,
}: {
  refused: EpisodeTimelines["episode"]["refused"] | undefined;
}) {
  if (!refused) return null; // a record of an older server has none
  return (
    <div className="mt-4">
      <Notice
        tone="warn"
        title={`${number(refused.count)} ${refused.count === 1 ? "call was" : "calls were"} refused`}
      >
        <ul className="space-y-1">
          {[...refused.last].reverse().map((call) => (
            <li key={`${String(call.at)} ${call.path}`} className="wrap-anywhere">
              {visible(call.message)} ({call.status}, {visible(call.path)})
            </li>
          ))}
        </ul>
      </Notice>
    </div>
  );
}
