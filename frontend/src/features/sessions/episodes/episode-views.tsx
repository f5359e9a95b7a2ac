// What was said in an episode, to be read; and its tokens, each with what is known of it. The address names which.
import { useState } from "react";
import type { EpisodeTimelines } from "../../../api/types";
import { useAddress } from "../../../ui/address-part";
import { Button } from "../../../ui/button";
import { Loading } from "../../../ui/loading";
import { Conversation } from "./conversation";
import { Dialogue } from "./dialogue";
import type { ShownTokens } from "./use-tokens";

const TAB =
  "border-b-2 border-transparent py-2 font-medium text-muted hover:text-ink aria-pressed:border-accent aria-pressed:text-ink";
const VIEWS = [
  { view: "read", name: "Read" },
  { view: "tokens", name: "Tokens" },
] as const;

/** A link to a token, or to a measure of tokens, is one to them. */
function viewIn(address: URLSearchParams): "read" | "tokens" {
  return address.get("view") === "tokens" || address.has("token") || address.has("colour")
    ? "tokens"
    : "read";
}

export function EpisodeViews({
  tokens,
  loaded,
}: {
  tokens: ShownTokens;
  loaded: EpisodeTimelines;
}) {
  const [address, setAddress] = useAddress();
  const asked = viewIn(address);
  const [shown, setShown] = useState(asked);
  const [seen, setSeen] = useState(asked);
  if (asked !== seen) {
    setSeen(asked);
    if (asked === "tokens") setShown(asked); // and they stay when no token is chosen any more
  }
  const choose = (view: "read" | "tokens") => {
    setShown(view);
    setAddress(view === "tokens" ? { view } : { view: "", token: "", line: "", colour: "" });
  };
  // Buttons and no tabs: the arrows are those of the tokens.
  return (
    <>
      <div
        role="group"
        aria-label="The episode"
        className="mb-3 flex gap-5 border-b border-line print:hidden"
      >
        {VIEWS.map(({ view, name }) => (
          <button
            key={view}
            type="button"
            aria-pressed={shown === view}
            className={TAB}
            onClick={() => {
              choose(view);
            }}
          >
            {name}
          </button>
        ))}
      </div>
      {shown === "read" ? (
        <Dialogue calls={loaded.calls} />
      ) : (
        <EpisodeTokens tokens={tokens} loaded={loaded} />
      )}
    </>
  );
}

/** The tokens with the way to what is not loaded, before them and after them. */
function EpisodeTokens({ tokens, loaded }: { tokens: ShownTokens; loaded: EpisodeTimelines }) {
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
