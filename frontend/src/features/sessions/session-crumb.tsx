// The way back: session, its episodes, what is open now.
import { Link } from "react-router";
import type { Session } from "../../api/types";
import { UserText } from "../../ui/plain-text";

interface SessionCrumbProps {
  session: Session | undefined;
  id: string;
  /** What is open below the episodes; none of it, the episodes themselves are. */
  trail?: string[];
  /** Pages between the session and what is open, in place of its episodes: name and address. */
  above?: readonly (readonly [name: string, to: string])[];
  /** A page of the session that is not below its episodes. */
  page?: string;
  list?: string;
}

export function SessionCrumb({
  session,
  id,
  trail = [],
  above,
  page = "",
  list = "",
}: SessionCrumbProps) {
  const link = "rounded text-accent hover:underline";
  return (
    <nav
      aria-label="Where this is"
      className="mb-1 flex min-w-0 flex-wrap gap-x-1.5 text-xs text-muted"
    >
      <Link to={`/sessions/${id}`} className={`${link} max-w-64 truncate`}>
        <UserText text={session?.name || id} />
      </Link>
      {above?.map(([name, to]) => (
        <span key={to} className="inline-flex min-w-0 gap-x-1.5">
          <span aria-hidden>/</span>
          <Link to={to} className={`${link} max-w-64 truncate`}>
            <UserText text={name} />
          </Link>
        </span>
      ))}
      {!above && <span aria-hidden>/</span>}
      {above ? null : page || trail.length === 0 ? (
        <span aria-current="page">{page || "Episodes"}</span>
      ) : (
        <Link to={`/sessions/${id}/episodes${list}`} className={link}>
          Episodes
        </Link>
      )}
      {trail.map((name) => (
        <span key={name} className="truncate">
          / {name}
        </span>
      ))}
    </nav>
  );
}
