// One episode of a shared run, down to the token.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "react-router";
import { sharedTimelinesQuery } from "../../../api/sharing";
import { Button } from "../../../ui/button";
import { number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { UserText } from "../../../ui/user-text";
import { Conversation } from "../episodes/conversation";
import { joinPages } from "../episodes/join-pages";

export function SharedEpisode({ token, episodeId }: { token: string; episodeId: string }) {
  const { data, error, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(sharedTimelinesQuery(token, episodeId));
  const told = useMemo(() => (data ? joinPages(data.pages) : null), [data]);
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
            <UserText text={told.episode.task ?? episodeId} />
            <span className="ml-3 font-normal text-muted tabular-nums">reward {number(told.episode.reward)}</span>
          </h2>
          <Conversation timelines={told.timelines} calls={told.calls} />
          {hasNextPage && (
            <div className="text-center">
              <Button onClick={() => void fetchNextPage()} disabled={isFetchingNextPage}>
                {isFetchingNextPage ? "Loading…" : "Show more tokens"}
              </Button>
            </div>
          )}
        </>
      )}
    </>
  );
}
