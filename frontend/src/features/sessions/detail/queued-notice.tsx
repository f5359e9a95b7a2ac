// Why a run that is queued does not start yet: who has the runtimes, a quota that holds it, an operator who works.
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { capacityQuery } from "../../../api/server";
import type { Capacity, Session } from "../../../api/types";
import { number } from "../../../ui/format";
import { Notice } from "../../../ui/notice";
import { UserText } from "../../../ui/plain-text";

const NAMED = 3;

export function QueuedNotice({ session }: { session: Session }) {
  const { data } = useQuery(capacityQuery);
  const running = data?.running ?? [];
  return (
    <Notice title={`Queued, position ${number(session.queue_position)}`}>
      {waitsFor(session.id, data)}{" "}
      {session.priority !== 0 &&
        `Its priority among the project’s queued sessions is ${String(session.priority)}. `}
      {session.restarts > 0 && "It goes on from its last committed state. "}
      {running.length > 0 && (
        <>
          Of this project there run{" "}
          {running.slice(0, NAMED).map(({ session_id: id, name }, at) => (
            <span key={id}>
              {at > 0 && ", "}
              <Link
                to={`/sessions/${id}`}
                className="rounded text-accent underline underline-offset-2"
              >
                <UserText text={name || id} />
              </Link>
            </span>
          ))}
          {running.length > NAMED && ` and ${number(running.length - NAMED)} more`}.{" "}
        </>
      )}
      <Link to="/capacity" className="rounded text-accent underline underline-offset-2">
        Capacity
      </Link>
    </Notice>
  );
}

/** What has to happen before a queued session starts. `capacity`: undefined where it could not be read. */
export function waitsFor(
  id: string,
  capacity: Pick<Capacity, "is_draining" | "waiting" | "quotas" | "max_runtimes"> | undefined,
): string {
  if (capacity?.is_draining)
    return "The server is draining: its operator works on it, and no session starts until that is over.";
  const { used, limit } = capacity?.quotas.devices ?? { used: 0, limit: null };
  if (limit !== null && capacity?.waiting.some((row) => row.session_id === id && row.is_held)) {
    // An operator may have lowered the quota since the session was accepted.
    if (used === 0 && capacity.waiting.every((row) => row.is_held))
      return `It needs more than the ${number(limit)} devices that the project may have. The server’s operator sets that quota.`;
    return `The project uses ${number(used)} of the ${number(limit)} devices that it may have. It starts by itself when one of the project’s sessions ends.`;
  }
  const most = capacity
    ? ` ${number(capacity.max_runtimes)} may run at once, of all projects.`
    : "";
  return `It starts by itself when a runtime is free.${most}`;
}
