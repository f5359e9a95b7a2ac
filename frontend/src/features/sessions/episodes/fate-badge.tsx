// Where an episode is in the accounting.
import type { Episode } from "../../../api/types";
import { Badge, type Tone } from "../../../ui/badge";

const TONES: Record<string, Tone> = {
  open: "busy",
  waiting: "busy",
  trained: "good",
  eval: "neutral",
  stale: "warn",
  abandoned: "warn",
  expired: "warn",
};

function fateOf(episode: Episode): string {
  if (episode.state !== "completed") return episode.state;
  return episode.fate === "accepted" || episode.fate === null ? "waiting" : episode.fate;
}

export function FateBadge({ episode }: { episode: Episode }) {
  const fate = fateOf(episode);
  return <Badge tone={TONES[fate] ?? "neutral"}>{fate}</Badge>;
}
