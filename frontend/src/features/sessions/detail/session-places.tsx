// The other pages of a run, in one row under its name.
import { Link } from "react-router";
import { isExported } from "../../../api/offline";
import type { Session } from "../../../api/types";

export function SessionPlaces({ session }: { session: Session }) {
  const page = `/sessions/${session.id}`;
  const trains = session.kind === "episodes"; // others have no episodes, and no steps of them
  const places: [name: string, to: string][] = [
    ...(trains ? ([["Episodes", `${page}/episodes`], ["Tasks", `${page}/tasks`]] as [string, string][]) : []),
    ...(trains && session.policy_version > 0 ? ([["Last step", `${page}/steps/${String(session.policy_version)}`]] as [string, string][]) : []),
    ["Health", `${page}/health`],
    ...(trains && !isExported ? ([["Compare", `/compare?runs=${session.id}`]] as [string, string][]) : []),
  ];
  return (
    <nav aria-label="Pages of the run" data-page-actions className="-mx-2 mt-1 flex flex-wrap gap-x-1 print:hidden">
      {places.map(([name, to]) => (
        <Link key={name} to={to} className="flex h-8 items-center rounded px-2 font-medium text-accent hover:bg-sunken">
          {name}
        </Link>
      ))}
    </nav>
  );
}
