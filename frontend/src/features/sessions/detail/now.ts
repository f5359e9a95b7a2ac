// Which runs' pages tell what the run is at now: those that train and have a runtime, which does something.
import { isExported } from "../../../api/offline";
import type { Session, SessionState } from "../../../api/types";

const WORKING: readonly SessionState[] = ["provisioning", "loading", "ready", "stopping"];

export function hasNow({ kind, state }: Session): boolean {
  return kind === "episodes" && !isExported && WORKING.includes(state);
}
