// Every episode of a session that matches: while it runs and long after. The address holds what is asked.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { useParams, useSearchParams } from "react-router";
import { episodesQuery } from "../../../api/episodes";
import { hasEnded, sessionQuery } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { ButtonLink } from "../../../ui/button";
import { dateTime } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty, PageHeader } from "../../../ui/panel";
import { SessionCrumb } from "../session-crumb";
import { EpisodeFacets } from "./episode-facets";
import { filterOf, listPart } from "./episode-filter";
import { EpisodesFilterBar } from "./episodes-filter-bar";
import { EpisodesTable } from "./episodes-table";
import { columnsIn, measuresOf } from "./own-columns";

export function EpisodesPage() {
  const { id = "" } = useParams();
  const [address] = useSearchParams();
  const session = useQuery(sessionQuery(id)).data;
  const filter = useMemo(() => filterOf(address), [address]);
  const isLive = session !== undefined && !hasEnded(session);
  const {
    data,
    error,
    isPending,
    isPlaceholderData,
    hasNextPage,
    isFetchingNextPage,
    fetchNextPage,
  } = useInfiniteQuery(episodesQuery(id, filter, isLive));
  const episodes = useMemo(() => data?.pages.flatMap((page) => page.items) ?? [], [data]);
  const onEnd = useCallback(() => {
    if (hasNextPage && !isFetchingNextPage) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage]);
  const isFiltered = filter.some(([name]) => name !== "sort");
  const measured = measuresOf(episodes);
  const absent = noEpisodes(session, isFiltered);
  return (
    <>
      <SessionCrumb session={session} id={id} trail={[]} />
      <PageHeader title="Episodes" of={session} />
      <EpisodesFilterBar measured={measured} />
      <EpisodeFacets id={id} filter={filter} isLive={isLive} />
      <ErrorNotice error={error} />
      {isPending && <Loading />}
      {data && episodes.length === 0 && (
        <Empty title={absent.title}>
          {absent.text ??
            (isFiltered && (
              <ButtonLink to={`/sessions/${id}/episodes`}>Show all episodes</ButtonLink>
            ))}
        </Empty>
      )}
      {episodes.length > 0 && (
        <div aria-busy={isPlaceholderData} className={isPlaceholderData ? "opacity-60" : ""}>
          <EpisodesTable
            episodes={episodes}
            own={columnsIn(address)}
            pathOf={(episode) =>
              `/sessions/${id}/episodes/${episode.episode_id}${listPart(address)}`
            }
            onEnd={onEnd}
            place={`episodes ${id}${listPart(address)}`}
          />
          <p className="mt-2 text-xs text-muted" role="status">
            {episodes.length.toLocaleString("en")}{" "}
            {hasNextPage ? "loaded; scroll for more" : "in all"}. J and K choose, Enter opens.
          </p>
        </div>
      )}
    </>
  );
}

/** `title` and `text`; without a text the page offers the whole list. */
export function noEpisodes(
  session: Session | undefined,
  isFiltered: boolean,
): { title: string; text?: string } {
  if (session?.episodes_removed_at)
    return {
      title: "Its episodes are no longer kept",
      text: `They were removed on ${dateTime(session.episodes_removed_at)}, by the server's rule for sessions that ended long ago. Checkpoints and metrics of steps stay.`,
    };
  if (isFiltered) return { title: "No episode matches" };
  if (session && hasEnded(session))
    return session.accounting.begun === 0
      ? { title: "No episode was played" }
      : {
          title: "Its episodes are not listed",
          text: `${session.accounting.begun.toLocaleString("en")} were played, and their list did not arrive. What was archived of them is had with "tinkerscript episodes ${session.id}".`,
        };
  return { title: "No episode yet", text: "They are listed a second or two after they begin." };
}
