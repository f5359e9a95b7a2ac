// The prompt of an episode's first call, to be asked again.
import { queryOptions } from "@tanstack/react-query";
import { timelinesPage } from "../../api/episodes";
import type { EpisodeTimelines } from "../../api/types";

/** `place` is "session/episode", as the address has it; empty: nothing is asked. */
export function promptQuery(place: string) {
  const [session = "", episode = ""] = place.split("/");
  return queryOptions({
    queryKey: ["playground", place],
    queryFn: () => timelinesPage(session, episode, 1),
    enabled: session !== "" && episode !== "",
    staleTime: Infinity,
  });
}

export interface Prompt {
  system: string;
  prompt: string;
}

/** Its first system message and its last message of a user before the first answer; null for an episode without a call. */
export function importedPrompt({ calls }: Pick<EpisodeTimelines, "calls">): Prompt | null {
  const first = calls[0];
  if (!first) return null;
  const messages = first.messages as { role?: unknown; content?: unknown }[];
  const system = messages.find(({ role }) => role === "system");
  const user = [...messages].reverse().find(({ role }) => role === "user");
  return { system: text(system?.content), prompt: text(user?.content) };
}

/** A content is a text, or parts of which some have one. */
function text(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return (content as { text?: unknown }[])
    .map((part) => (typeof part.text === "string" ? part.text : ""))
    .join("");
}
