// The session's name and state, the live channel's state, and what can be done with it.
import { isExported } from "../../../api/offline";
import { hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import type { Link } from "../../../live/follow";
import { ButtonLink } from "../../../ui/button";
import { CopyText } from "../../../ui/copy";
import { ErrorNotice } from "../../../ui/notice";
import { UserText } from "../../../ui/plain-text";
import { ExportModel } from "../checkpoints/export-model";
import { PinButton, useUpdate } from "./annotate-session";
import { LinkState } from "../link-state";
import { TagLinks } from "../tag-links";
import { hasNow } from "./now-panel";
import { SessionActionsBar, useSessionActions } from "./session-actions-bar";
import { StateBadge } from "../state-badge";
import { useMayWrite } from "../../../use-may-write";

interface SessionHeaderProps {
  session: Session;
  link: Link;
  heardAt: number | null;
}

export function SessionHeader({ session, link, heardAt }: SessionHeaderProps) {
  const actions = useSessionActions(session);
  const mayWrite = useMayWrite();
  const pin = useUpdate(session.id);
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <div className="flex min-w-0 flex-1 basis-80 flex-wrap items-center gap-x-3 gap-y-1">
          <h1 className="min-w-0 text-xl font-semibold tracking-tight break-words">
            <UserText text={session.name || session.id} />
          </h1>
          <CopyText label="the session's id" text={session.id} />
          <TagLinks tags={session.tags} />
          <StateBadge state={session.state} />
          {session.phase && !hasEnded(session) && !hasNow(session) && (
            <span className="min-w-0 text-muted wrap-anywhere">{session.phase}</span>
          )}
          {(!hasEnded(session) || link.status === "refused") && (
            <LinkState link={link} heardAt={heardAt} />
          )}
        </div>
        <div data-page-actions className="flex flex-wrap items-center gap-2">
          <ExportModel session={session} />
          {session.kind === "episodes" && !isExported && (
            <ButtonLink to={`/compare?runs=${session.id}`}>Compare</ButtonLink>
          )}
          {mayWrite && session.kind === "episodes" && (
            <ButtonLink to={`/sessions/new?from=${session.id}`}>Run again</ButtonLink>
          )}
          {mayWrite && <PinButton session={session} update={pin} />}
          {mayWrite && <SessionActionsBar session={session} actions={actions} />}
        </div>
      </div>
      <ErrorNotice error={actions.error} />
      <ErrorNotice error={pin.error} />
    </>
  );
}
