// A session's state as a badge.
import type { SessionState } from "../../api/types";
import { Badge, type Tone } from "../../ui/badge";

const TONES: Record<SessionState, Tone> = {
  queued: "neutral",
  provisioning: "busy",
  loading: "busy",
  ready: "good",
  suspended: "neutral",
  stopping: "warn",
  stopped: "neutral",
  failed: "bad",
  cancelled: "neutral",
};

export function StateBadge({ state }: { state: SessionState }) {
  return <Badge tone={TONES[state]}>{state}</Badge>;
}
