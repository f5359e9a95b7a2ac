import { expect, test } from "vitest";
import type { SessionState } from "../../../api/types";
import { actionWords, allowedActions, type SessionAction } from "./session-actions";

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
  for (const [state, moves] of Object.entries(ALLOWED))
    expect(allowedActions(state as SessionState), state).toEqual(moves);
});

test("a served model is promised no state, no episodes and no checkpoints", () => {
  for (const action of ["suspend", "resume", "stop", "delete"] as const) {
    expect(actionWords("serving", action).description).not.toMatch(
      /saved|episode|checkpoint|export/i,
    );
    expect(actionWords("serving", action).button).toBe(actionWords("episodes", action).button);
  }
  expect(actionWords("episodes", "stop").description).toContain("checkpoints");
  for (const action of ["suspend", "resume", "stop", "delete"] as const)
    expect(actionWords("tinker", action).description).not.toMatch(/episode|export/i);
});
