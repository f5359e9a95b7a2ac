// Every episode of a session that matches: while it runs and long after. The address holds what is asked.
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { useParams, useSearchParams } from "react-router";
import { episodesQuery } from "../../../api/episodes";
import { hasEnded, sessionQuery } from "../../../api/sessions";
import { ButtonLink } from "../../../ui/button";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty, PageHeader } from "../../../ui/panel";
import { filterOf, listPart } from "./episode-filter";
import { EpisodeFacets } from "./episode-facets";
import { EpisodesFilterBar } from "./episodes-filter-bar";
import { EpisodesTable } from "./episodes-table";
import { columnsIn, measuresOf } from "./own-columns";
import { noEpisodes } from "./no-episodes";
import { SessionCrumb } from "../session-crumb";

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
