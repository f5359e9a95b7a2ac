import { expect, test } from "vitest";
import type { SessionState } from "../../../api/types";
import { allowedActions, type SessionAction } from "./session-actions";

const ALLOWED: Record<SessionState, SessionAction[]> = {
  queued: ["stop"],
  provisioning: ["stop"],
  loading: ["stop"],
  ready: ["suspend", "stop"],
  suspended: ["resume", "stop"],
  stopping: [],
  stopped: ["delete"],
  failed: ["delete"],
  cancelled: ["delete"],
};

test("in every state only what the server allows is offered", () => {
  for (const [state, moves] of Object.entries(ALLOWED)) expect(allowedActions(state as SessionState), state).toEqual(moves);
});
