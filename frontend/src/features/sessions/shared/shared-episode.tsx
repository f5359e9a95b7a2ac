// One episode of a shared run, down to the token.
import { Link } from "react-router";
import { sharedTimelinesQuery } from "../../../api/sharing";
import { number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { UserText } from "../../../ui/user-text";
import { EpisodeViews } from "../episodes/episode-views";
import { nameOf } from "../episodes/first-line";
import { useTokens } from "../episodes/use-tokens";

export function SharedEpisode({ token, episodeId }: { token: string; episodeId: string }) {
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
