// The conversation of an episode with the way to what is not loaded, before it and after it.
import type { EpisodeTimelines } from "../../../api/types";
import { Button } from "../../../ui/button";
import { Loading } from "../../../ui/loading";
import { Conversation } from "./conversation";
import type { ShownTokens } from "./use-tokens";

export function EpisodeTokens({
  tokens,
  loaded,
}: {
  tokens: ShownTokens;
  loaded: EpisodeTimelines;
}) {
  const { showMore, showEarlier, isFetching, isPending } = tokens;
  return (
    <>
      {showEarlier && (
        <div className="mb-3 text-center">
          <Button onClick={showEarlier}>Show earlier tokens</Button>
        </div>
      )}
      <Conversation
        timelines={loaded.timelines}
        calls={loaded.calls}
        outline={loaded.outline}
        isWhole={!showMore && !showEarlier && !isPending}
      />
      {isPending && <Loading />}
      {showMore && (
        <div className="mt-3 text-center">
          <Button onClick={showMore} disabled={isFetching}>
            {isFetching ? "Loading…" : "Show more tokens"}
          </Button>
        </div>
      )}
    </>
  );
}
