// A page of a run beside its overview: where it is, what it is called, and its content once the run is there.
import { useQuery } from "@tanstack/react-query";
import type { ComponentType } from "react";
import { useParams } from "react-router";
import { hasEnded, sessionQuery } from "../../api/sessions";
import type { Session } from "../../api/types";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { useTitle } from "../../ui/use-title";
import { SessionCrumb } from "./session-crumb";
import { StateBadge } from "./state-badge";

export function RunPage({
  title,
  of: Content,
}: {
  title: string;
  of: ComponentType<{ session: Session }>;
}) {
  const { id = "" } = useParams();
  const { data: session, error } = useQuery(sessionQuery(id));
  useTitle(title, session);
  return (
    <>
      <SessionCrumb session={session} id={id} page={title} />
      <div className="mb-4 flex flex-wrap items-center gap-3">
        <h1 className="text-xl font-semibold tracking-tight">{title}</h1>
        {session && <StateBadge state={session.state} />}
        {session && !hasEnded(session) && <span className="text-muted">{session.phase}</span>}
      </div>
      <ErrorNotice error={error} />
      {!session && !error && <Loading />}
      {session && <Content key={id} session={session} />}
    </>
  );
}
