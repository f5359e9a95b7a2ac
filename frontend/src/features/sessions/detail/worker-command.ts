// What a person types on any machine to play what waits in the queue.
import type { TaskKind } from "../../../api/tasks";

/** It ends with the session. */
export function workerCommand(sessionId: string, kind: TaskKind): string {
  return `tinkerscript worker my_agent:run --session ${sessionId}${kind === "judged" ? " --judge my_judge:rank" : ""}`;
}
