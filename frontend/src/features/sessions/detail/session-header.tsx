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
import { UserText } from "../../../ui/user-text";
import { PinButton, useUpdate } from "./annotate-session";
import { LinkState } from "../link-state";
import { TagLinks } from "../tag-links";
import { SessionActionsBar, useSessionActions } from "./session-actions-bar";
import { StateBadge } from "../state-badge";
import { useMayWrite } from "../use-may-write";

interface SessionHeaderProps {
  session: Session;
  link: Link;
  heardAt: number | null;
}

export function SessionHeader({ session, link, heardAt }: SessionHeaderProps) {
  const actions = useSessionActions(session);
  const mayWrite = useMayWrite();
  const trains = session.kind !== "serving";
  const pin = useUpdate(session.id);
  const client = useQueryClient();
  const save = useMutation({
    meta: { done: "The model is being exported" },
    mutationFn: () => createCheckpoint(session.id, "model"),
    onSuccess: () => client.invalidateQueries({ queryKey: checkpointsQuery(session.id).queryKey }),
  });
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <h1 className="min-w-0 text-xl font-semibold tracking-tight break-words">
          <UserText text={session.name || session.id} />
        </h1>
        <CopyText label="the session's id" text={session.id} />
        <TagLinks tags={session.tags} />
        <StateBadge state={session.state} />
        {session.phase && !hasEnded(session) && <span className="text-muted">{session.phase}</span>}
        <div data-page-actions className="ml-auto flex flex-wrap items-center gap-2">
          {(!hasEnded(session) || link.status === "refused") && <LinkState link={link} heardAt={heardAt} />}
          {trains && <ButtonLink to={`/sessions/${session.id}/episodes`}>Episodes</ButtonLink>}
          {trains && <ButtonLink to={`/sessions/${session.id}/tasks`}>Tasks</ButtonLink>}
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
          {mayWrite && session.kind === "episodes" && <ButtonLink to={`/sessions/new?from=${session.id}`}>Run again</ButtonLink>}
          {mayWrite && <PinButton session={session} update={pin} />}
          {mayWrite && <SessionActionsBar session={session} actions={actions} />}
        </div>
      </div>
      <ErrorNotice error={actions.error ?? save.error} />
      <ErrorNotice error={pin.error} />
    </>
  );
}
