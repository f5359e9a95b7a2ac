// What was said in an episode, to be read; and its tokens, each with what is known of it. The address names which.
import { useState } from "react";
import type { EpisodeTimelines } from "../../../api/types";
import { useAddress, withPart } from "../../../ui/address-part";
import { Dialogue } from "./dialogue";
import { EpisodeTokens } from "./episode-tokens";
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
    setAddress(
      (before) =>
        view === "tokens"
          ? withPart(before, "view", view)
          : ["view", "token", "line", "colour"].reduce(
              (now, name) => withPart(now, name, ""),
              before,
            ),
      { replace: true },
    );
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
