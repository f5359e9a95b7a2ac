// The session's name and state, the live channel's state, and what can be done with it.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { createCheckpoint, checkpointsQuery } from "../../api/checkpoints";
import { hasEnded, sessionQuery, stopSession } from "../../api/sessions";
import type { Session } from "../../api/types";
import type { Link } from "../../live/link";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { ErrorNotice } from "../../ui/notice";
import { StateBadge } from "./state-badge";

export function SessionHeader({ session, link }: { session: Session; link: Link }) {
  const client = useQueryClient();
  const stop = useMutation({
    mutationFn: () => stopSession(session.id),
    onSuccess: (stopped) => {
      client.setQueryData(sessionQuery(session.id).queryKey, stopped);
    },
  });
  const save = useMutation({
    mutationFn: () => createCheckpoint(session.id, "model"),
    onSuccess: () => client.invalidateQueries({ queryKey: checkpointsQuery(session.id).queryKey }),
  });
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <h1 className="text-xl font-semibold tracking-tight">{session.name || session.id}</h1>
        <StateBadge state={session.state} />
        {session.phase && !hasEnded(session) && <span className="text-muted">{session.phase}</span>}
        <div className="ml-auto flex items-center gap-2">
          <LinkState link={link} ended={hasEnded(session)} />
          <Button
            onClick={() => {
              save.mutate();
            }}
            disabled={save.isPending || session.state !== "ready"}
            title={session.state === "ready" ? undefined : "A model can be exported while the session is ready"}
          >
            Export model
          </Button>
          {!hasEnded(session) && (
            <Confirm
              trigger={
                <Button look="danger" disabled={stop.isPending || session.state === "stopping"}>
                  Stop
                </Button>
              }
              title="Stop this session?"
              description="It ends once its state is safe and cannot be started again. Committed checkpoints stay downloadable; export the model first if you want its latest weights."
              action="Stop session"
              onConfirm={() => {
                stop.mutate();
              }}
            />
          )}
        </div>
      </div>
      <ErrorNotice error={stop.error ?? save.error} />
    </>
  );
}

function LinkState({ link, ended }: { link: Link; ended: boolean }) {
  if (ended && link.status !== "refused") return null;
  const live = link.status === "live";
  const words = { live: "Live", connecting: "Connecting…", waiting: "Reconnecting…", refused: "Not live" }[link.status];
  return (
    <span role="status" title={link.status === "refused" ? link.reason : undefined} className="inline-flex items-center gap-1.5 text-xs text-muted">
      <span aria-hidden className={`size-2 rounded-full ${live ? "bg-good" : link.status === "refused" ? "bg-bad" : "animate-pulse bg-warn"}`} />
      {words}
    </span>
  );
}
