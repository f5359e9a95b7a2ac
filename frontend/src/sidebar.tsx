// The places of a project, and within a run its pages; in a narrow window behind a button.
import type { ReactNode } from "react";
import { NavLink, useLocation } from "react-router";
import { currentProject } from "./api/project";
import type { Account } from "./api/types";
import { ProjectSwitcher } from "./features/account/project-switcher";
import { RunPlaces } from "./features/sessions/run-places";
import { runIn } from "./address";
import { placeClass, useMenu } from "./use-menu";

interface PlaceEntry {
  to: string;
  label: string;
  forOwners?: boolean;
}

/** With a run that is open after the first group. */
const GROUPS: readonly { title: string; places: readonly PlaceEntry[] }[] = [
  {
    title: "",
    places: [
      { to: "/home", label: "Home" },
      { to: "/sessions", label: "Sessions" },
    ],
  },
  {
    title: "Models",
    places: [
      { to: "/compare", label: "Compare" },
      { to: "/playground", label: "Playground" },
      { to: "/serving", label: "Serving" },
    ],
  },
  {
    title: "Project",
    places: [
      { to: "/usage", label: "Usage" },
      { to: "/capacity", label: "Capacity" },
      { to: "/alert-rules", label: "Alert rules" },
      { to: "/keys", label: "API keys" },
      { to: "/members", label: "Members" },
      { to: "/webhooks", label: "Webhooks", forOwners: true },
      { to: "/audit", label: "Audit log", forOwners: true },
    ],
  },
  {
    title: "Help",
    places: [
      { to: "/words", label: "What is this word" },
      { to: "/manual", label: "Manual" },
    ],
  },
];

/** All places that this person may open, in the order of the menu. */
export function placesFor(account: Account): PlaceEntry[] {
  const isOwner = currentProject(account)?.role === "owner";
  return GROUPS.flatMap(({ places }) => places.filter(({ forOwners }) => !forOwners || isOwner));
}

export function Sidebar({ account }: { account: Account }) {
  const { pathname } = useLocation();
  const { button, folded } = useMenu();
  const run = runIn(pathname);
  const theirs = placesFor(account);
  return (
    <aside className="print:hidden border-line bg-surface max-lg:border-b lg:sticky lg:top-0 lg:max-h-screen lg:w-52 lg:shrink-0 lg:self-stretch lg:overflow-y-auto lg:border-r">
      <div className="flex h-12 items-center justify-between gap-2 px-4">
        <ProjectSwitcher account={account} />
        {button}
      </div>
      <nav id="places" aria-label="Main" className={`space-y-3 px-2 pb-4 ${folded}`}>
        {GROUPS.map(({ title, places }) => (
          <Group key={title} title={title}>
            {places
              .filter((place) => theirs.includes(place))
              .map(({ to, label }) => (
                <NavLink key={to} to={to} end={to === "/sessions"} className={placeClass}>
                  {label}
                </NavLink>
              ))}
            {title === "" && run && <RunPlaces id={run} />}
          </Group>
        ))}
      </nav>
    </aside>
  );
}

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div>
      {title && <p className="px-2 py-1 text-xs font-medium text-muted">{title}</p>}
      {children}
    </div>
  );
}
