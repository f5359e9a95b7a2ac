// What can be asked of a session in which state, and what each asks the user first.
import type { SessionState } from "../../../api/types";

export type SessionAction = "suspend" | "resume" | "stop" | "delete";

const FROM: Record<SessionAction, readonly SessionState[]> = {
  suspend: ["ready"],
  resume: ["suspended"],
  stop: ["queued", "provisioning", "loading", "ready", "suspended"],
  delete: ["stopped", "failed", "cancelled"],
};

export function allowedActions(state: SessionState): SessionAction[] {
  return (Object.keys(FROM) as SessionAction[]).filter((action) => FROM[action].includes(state));
}

interface Words {
  button: string;
  title: string;
  description: string;
  action: string;
}

export const ACTION_LABELS: Record<SessionAction, Words> = {
  suspend: {
    button: "Suspend",
    title: "Suspend this session?",
    description: "Its state is saved and its runtime freed. The next episode wakes it, or “Resume”.",
    action: "Suspend session",
  },
  resume: {
    button: "Resume",
    title: "Resume this session?",
    description: "It joins the queue, goes on from its saved state, and uses device time again.",
    action: "Resume session",
  },
  stop: {
    button: "Stop",
    title: "Stop this session?",
    description:
      "It ends once its state is safe and cannot be started again. Committed checkpoints stay downloadable; export the model first if you want its latest weights.",
    action: "Stop session",
  },
  delete: {
    button: "Delete",
    title: "Delete this session?",
    description: "Its record, its episodes and all of its checkpoints, pinned ones too, are removed. This cannot be undone.",
    action: "Delete session",
  },
};
