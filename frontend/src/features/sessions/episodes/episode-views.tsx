// What was said in an episode, to be read; and its tokens, each with what is known of it. The address names which.
import { Tabs } from "radix-ui";
import { useState } from "react";
import type { EpisodeTimelines } from "../../../api/types";
import { useAddress, withPart } from "../../../ui/address-part";
import { Dialogue } from "./dialogue";
import { EpisodeTokens } from "./episode-tokens";
import type { ShownTokens } from "./use-tokens";

const TAB = "border-b-2 border-transparent py-2 font-medium text-muted hover:text-ink data-[state=active]:border-accent data-[state=active]:text-ink";

/** A link to a token, or to a measure of tokens, is one to them. */
export function viewIn(address: URLSearchParams): "read" | "tokens" {
  return address.get("view") === "tokens" || address.has("token") || address.has("colour") ? "tokens" : "read";
}

export function EpisodeViews({ tokens, loaded }: { tokens: ShownTokens; loaded: EpisodeTimelines }) {
  const [address, setAddress] = useAddress();
  const asked = viewIn(address);
  const [shown, setShown] = useState(asked);
  if (asked === "tokens" && shown !== asked) setShown(asked); // and they stay when no token is chosen any more
  const choose = (view: string) => {
    setShown(view === "tokens" ? view : "read");
    setAddress((before) => (view === "tokens" ? withPart(before, "view", view) : ["view", "token", "line", "colour"].reduce((now, name) => withPart(now, name, ""), before)), { replace: true });
  };
  return (
    <Tabs.Root value={shown} onValueChange={choose}>
      <Tabs.List aria-label="The episode" className="mb-3 flex gap-5 border-b border-line print:hidden">
        <Tabs.Trigger value="read" className={TAB}>
          Read
        </Tabs.Trigger>
        <Tabs.Trigger value="tokens" className={TAB}>
          Tokens
        </Tabs.Trigger>
      </Tabs.List>
      <Tabs.Content value="read">
        <Dialogue calls={loaded.calls} />
      </Tabs.Content>
      <Tabs.Content value="tokens">
        <EpisodeTokens tokens={tokens} loaded={loaded} />
      </Tabs.Content>
    </Tabs.Root>
  );
}
