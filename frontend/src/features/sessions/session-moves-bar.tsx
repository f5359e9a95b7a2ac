// The buttons that move a session, each behind a question, each only where its state allows it.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { deleteSession, resumeSession, sessionQuery, sessionsKey, stopSession, suspendSession } from "../../api/sessions";
import type { Session } from "../../api/types";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { allowedMoves, WORDS, type Move } from "./session-moves";

const CALLS: Record<Exclude<Move, "delete">, (id: string) => Promise<Session>> = {
  suspend: suspendSession,
  resume: resumeSession,
  stop: stopSession,
};

interface SessionMoves {
  ask: (move: Move) => void;
  busy: boolean;
  error: Error | null;
}

export function useSessionMoves({ id }: Session): SessionMoves {
  const client = useQueryClient();
  const navigate = useNavigate();
  const { queryKey } = sessionQuery(id);
  const move = useMutation({
    mutationFn: (wanted: Exclude<Move, "delete">) => CALLS[wanted](id),
    onSuccess: (moved) => {
      client.setQueryData(queryKey, moved);
    },
  });
  const gone = useMutation({
    mutationFn: () => deleteSession(id),
    onSuccess: async () => {
      await navigate("/sessions");
      client.removeQueries({ queryKey });
      await client.invalidateQueries({ queryKey: sessionsKey });
    },
  });
  return {
    ask: (wanted) => {
      move.reset();
      gone.reset();
      if (wanted === "delete") gone.mutate();
      else move.mutate(wanted);
    },
    busy: move.isPending || gone.isPending,
    error: move.error ?? gone.error,
  };
}

export function SessionMovesBar({ session, moves }: { session: Session; moves: SessionMoves }) {
  return allowedMoves(session.state).map((move) => (
    <Confirm
      key={move}
      trigger={
        <Button look={move === "stop" || move === "delete" ? "danger" : "secondary"} disabled={moves.busy}>
          {WORDS[move].button}
        </Button>
      }
      title={WORDS[move].title}
      description={WORDS[move].description}
      action={WORDS[move].action}
      onConfirm={() => {
        moves.ask(move);
      }}
    />
  ));
}
