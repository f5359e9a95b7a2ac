// The session's name and state, the live channel's state, and what can be done with it.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { createCheckpoint, checkpointsQuery } from "../../../api/checkpoints";
import { isExported } from "../../../api/offline";
import { hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import type { Link } from "../../../live/link";
import { Button, ButtonLink } from "../../../ui/button";
import { CopyText } from "../../../ui/copy";
import { ErrorNotice } from "../../../ui/notice";
import { useOnline } from "../../../ui/offline-bar";
import { PinButton, useUpdate } from "./annotate-session";
import { TagLinks } from "../tag-links";
import { SessionActionsBar, useSessionActions } from "./session-actions-bar";
import { StateBadge } from "../state-badge";
import { useMayWrite } from "../use-may-write";

export function SessionHeader({ session, link }: { session: Session; link: Link }) {
  const actions = useSessionActions(session);
  const mayWrite = useMayWrite();
  const trains = session.kind !== "serving";
  const pin = useUpdate(session.id);
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: () => createCheckpoint(session.id, "model"),
    onSuccess: () => client.invalidateQueries({ queryKey: checkpointsQuery(session.id).queryKey }),
  });
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <h1 className="min-w-0 text-xl font-semibold tracking-tight break-words">
          <bdi>{session.name || session.id}</bdi>
        </h1>
        <CopyText label="the session's id" text={session.id} />
        <TagLinks tags={session.tags} />
        <StateBadge state={session.state} />
        {session.phase && !hasEnded(session) && <span className="text-muted">{session.phase}</span>}
        <div data-page-actions className="ml-auto flex flex-wrap items-center gap-2">
          <LinkState link={link} ended={hasEnded(session)} />
          {trains && <ButtonLink to={`/sessions/${session.id}/episodes`}>Episodes</ButtonLink>}
          {trains && session.policy_version > 0 && <ButtonLink to={`/sessions/${session.id}/steps/${String(session.policy_version)}`}>Last step</ButtonLink>}
          <ButtonLink to={`/sessions/${session.id}/health`}>Health</ButtonLink>
          {trains && !isExported && <ButtonLink to={`/compare?runs=${session.id}`}>Compare</ButtonLink>}
          {trains && mayWrite && !hasEnded(session) && (
            <Button
              onClick={() => {
                save.mutate();
              }}
              disabled={save.isPending || session.state !== "ready"}
              title={session.state === "ready" ? undefined : "A model can be exported while the session is ready"}
            >
              Export model
            </Button>
          )}
          {mayWrite && <PinButton session={session} update={pin} />}
          {mayWrite && <SessionActionsBar session={session} actions={actions} />}
        </div>
      </div>
      <ErrorNotice error={actions.error ?? save.error} />
      <ErrorNotice error={pin.error} />
    </>
  );
}

function LinkState({ link, ended }: { link: Link; ended: boolean }) {
  const online = useOnline();
  if (ended && link.status !== "refused") return null;
  const live = link.status === "live" && online;
  const words = online ? { live: "Live", connecting: "Connecting…", waiting: "Reconnecting…", refused: "Not live" }[link.status] : "Offline";
  return (
    <span role="status" title={link.status === "refused" ? link.reason : undefined} className="inline-flex items-center gap-1.5 text-xs text-muted">
      <span aria-hidden className={`size-2 rounded-full ${live ? "bg-good" : link.status === "refused" ? "bg-bad" : "animate-pulse bg-warn"}`} />
      {words}
    </span>
  );
}
