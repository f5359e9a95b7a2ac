// The run that is open and its pages, in the frame beside them.
import { useQuery } from "@tanstack/react-query";
import { NavLink } from "react-router";
import { sessionQuery } from "../../api/sessions";
import type { Session } from "../../api/types";
import { placeClass } from "../../use-menu";
import { UserText } from "../../ui/plain-text";
import { StateBadge } from "./state-badge";

type Kind = Session["kind"];

const EVERY: readonly Kind[] = ["episodes", "tinker", "serving"];
const PLACES: readonly { name: string; path: string; kinds: readonly Kind[] }[] = [
  { name: "Overview", path: "", kinds: EVERY },
  { name: "Charts", path: "/charts", kinds: ["episodes"] },
  { name: "Episodes", path: "/episodes", kinds: ["episodes"] },
  { name: "Steps", path: "/steps", kinds: ["episodes"] },
  { name: "Tasks", path: "/tasks", kinds: ["episodes"] },
  { name: "Evals", path: "/evals", kinds: ["episodes"] },
  { name: "Checkpoints", path: "/checkpoints", kinds: ["episodes", "tinker"] },
  { name: "Health", path: "/health", kinds: EVERY },
  { name: "Settings", path: "/settings", kinds: EVERY },
];

/** The pages of a run of this kind: of a Tinker client's there are no episodes, of one that serves no checkpoints either. */
export function placesOf({
  id,
  kind,
}: Pick<Session, "id" | "kind">): { name: string; to: string }[] {
  return PLACES.filter(({ kinds }) => kinds.includes(kind)).map(({ name, path }) => ({
    name,
    to: `/sessions/${id}${path}`,
  }));
}

export function RunPlaces({ id }: { id: string }) {
  const { data: session } = useQuery(sessionQuery(id));
  if (!session) return null;
  return (
    <div className="my-1 border-l-2 border-line-strong pl-2">
      <p className="flex min-w-0 items-center gap-2 px-2 py-1">
        <UserText className="min-w-0 truncate font-medium" text={session.name || session.id} />
        <span className="ml-auto shrink-0">
          <StateBadge state={session.state} />
        </span>
      </p>
      <nav aria-label="Pages of the run" data-page-actions>
        {placesOf(session).map(({ name, to }, at) => (
          <NavLink key={to} to={to} end={at === 0} className={placeClass}>
            {name}
          </NavLink>
        ))}
      </nav>
    </div>
  );
}
