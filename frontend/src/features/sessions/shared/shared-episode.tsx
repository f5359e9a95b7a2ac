// One episode of a shared run, down to the token.
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { sharedTimelinesQuery } from "../../../api/sharing";
import { number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { visible } from "../../../ui/plain-text";
import { Conversation } from "../episodes/conversation";

export function SharedEpisode({ token, episodeId }: { token: string; episodeId: string }) {
  const { data, error } = useQuery(sharedTimelinesQuery(token, episodeId));
  return (
    <>
      <nav aria-label="Where this is" className="text-xs">
        <Link to={`/shared#${token}`} className="rounded text-accent underline underline-offset-2">
          The run
        </Link>
      </nav>
      <ErrorNotice error={error} />
      {!data && !error && <Loading />}
      {data && (
        <>
          <h2 className="font-semibold break-words">
            <bdi>{visible(data.episode.task ?? episodeId)}</bdi>
            <span className="ml-3 font-normal text-muted tabular-nums">reward {number(data.episode.reward)}</span>
          </h2>
          <Conversation timelines={data.timelines} calls={data.calls} />
          {data.next_cursor && <p className="text-xs text-muted">Its first tokens are shown; the rest can be read with an account.</p>}
        </>
      )}
    </>
  );
}
