// What can be asked of a session in which state, and what each asks the user first.
import type { Session, SessionState } from "../../../api/types";

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

const OF_RUNS: Record<SessionAction, Words> = {
  suspend: {
    button: "Suspend",
    title: "Suspend this session?",
    description:
      "Its state is saved and its runtime freed. The next episode wakes it, or “Resume”.",
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
      "It ends once its state is safe. Committed checkpoints stay, to be downloaded or to train further from; export the model first if you want its latest weights.",
    action: "Stop session",
  },
  delete: {
    button: "Delete",
    title: "Delete this session?",
    description:
      "Its record, its episodes and all of its checkpoints, pinned ones too, are removed. This cannot be undone.",
    action: "Delete session",
  },
};

/** A served model has no state of its own, no episodes and no checkpoints. */
const OF_SERVED_MODELS: Record<SessionAction, Words> = {
  suspend: {
    ...OF_RUNS.suspend,
    description: "Its runtime ends and costs nothing. The next call starts it again, or “Resume”.",
  },
  resume: {
    ...OF_RUNS.resume,
    description: "It joins the queue, loads its model again, and uses device time again.",
  },
  stop: {
    ...OF_RUNS.stop,
    description:
      "It ends, its keys with it, and cannot be started again. What it serves stays and can be served anew.",
  },
  delete: {
    ...OF_RUNS.delete,
    description: "Its record and its log are removed; what it served stays. This cannot be undone.",
  },
};

/** Models are saved by the client that drives it. */
const OF_TINKER: Record<SessionAction, Words> = {
  suspend: {
    ...OF_RUNS.suspend,
    description:
      "Its models are saved and its runtime freed. The next request of its client wakes it, or “Resume”.",
  },
  resume: {
    ...OF_RUNS.resume,
    description:
      "It joins the queue, goes on with its models as they were saved, and uses device time again.",
  },
  stop: {
    ...OF_RUNS.stop,
    description:
      "It ends and cannot be started again: its client’s next request is refused. Checkpoints that the client saved stay; what it did not save goes.",
  },
  delete: {
    ...OF_RUNS.delete,
    description:
      "Its record, its models and all of its checkpoints, published ones too, are removed. This cannot be undone.",
  },
};

const WORDS: Record<Session["kind"], Record<SessionAction, Words>> = {
  episodes: OF_RUNS,
  tinker: OF_TINKER,
  serving: OF_SERVED_MODELS,
};

export function actionWords(kind: Session["kind"], action: SessionAction): Words {
  return WORDS[kind][action];
}
