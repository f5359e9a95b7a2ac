// The buttons that change a session, each behind a question, each only where its state allows it.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import {
  deleteSession,
  resumeSession,
  sessionQuery,
  sessionsKey,
  stopSession,
  suspendSession,
} from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { Button } from "../../../ui/button";
import { Confirm } from "../../../ui/dialog";
import { actionWords, allowedActions, type SessionAction } from "./session-actions";

const CALLS: Record<Exclude<SessionAction, "delete">, (id: string) => Promise<Session>> = {
  suspend: suspendSession,
  resume: resumeSession,
  stop: stopSession,
};

interface SessionMoves {
  ask: (action: SessionAction) => void;
  busy: boolean;
  error: Error | null;
}

export function useSessionActions({ id }: Session): SessionMoves {
  const client = useQueryClient();
  const navigate = useNavigate();
  const { queryKey } = sessionQuery(id);
  const action = useMutation({
    mutationFn: (wanted: Exclude<SessionAction, "delete">) => CALLS[wanted](id),
    onSuccess: (moved) => {
      client.setQueryData(queryKey, moved);
    },
  });
  const gone = useMutation({
    meta: { done: "The session is deleted" },
    mutationFn: () => deleteSession(id),
    onSuccess: async () => {
      await navigate("/sessions");
      client.removeQueries({ queryKey });
      await client.invalidateQueries({ queryKey: sessionsKey });
    },
  });
  return {
    ask: (wanted) => {
      action.reset();
      gone.reset();
      if (wanted === "delete") gone.mutate();
      else action.mutate(wanted);
    },
    busy: action.isPending || gone.isPending,
    error: action.error ?? gone.error,
  };
}

export function SessionActionsBar({
  session,
  actions,
}: {
  session: Session;
  actions: SessionMoves;
}) {
  return allowedActions(session.state).map((action) => {
    const { button, ...question } = actionWords(session.kind, action);
    return (
      <Confirm
        key={action}
        trigger={
          <Button
            look={action === "stop" || action === "delete" ? "danger" : "secondary"}
            disabled={actions.busy}
          >
            {button}
          </Button>
        }
        {...question}
        onConfirm={() => {
          actions.ask(action);
        }}
      />
    );
  });
}
