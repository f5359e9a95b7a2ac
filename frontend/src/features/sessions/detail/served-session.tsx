// A session that serves a model: what it serves, where its calls go, its record. It has no steps and no episodes.
import { Link } from "react-router";
import type { Session } from "../../../api/types";
import type { SessionRecord } from "../../../live/record";
import { Fact } from "../../../ui/fact";
import { number, span } from "../../../ui/format";
import { EndpointPanel } from "../serving/endpoint-panel";
import { hasEnded } from "../../../api/sessions";
import { CreatedFact } from "./session-facts";
import { RecordPanel } from "./record-panel";

export function ServedSession({ session, record }: { session: Session; record: SessionRecord }) {
  return (
    <>
      <dl className="cells grid-cols-2 rounded-lg border border-line lg:grid-cols-4">
        <Fact term="Serves" note={servedNote(session)}>
          <span className="block font-mono text-sm leading-5 wrap-anywhere">
            {session.served_checkpoint_id ?? session.base_model}
          </span>
        </Fact>
        <Fact term="Base model" note={`${number(session.config.max_context_length)} tokens a call`}>
          <span className="block text-sm leading-5 wrap-anywhere">{session.base_model}</span>
        </Fact>
        <Fact term="Idle" note="then it suspends; a call starts it again">
          <span className="text-sm">{span(session.config.idle_suspend_s)}</span>
        </Fact>
        <CreatedFact session={session} />
      </dl>
      {hasEnded(session) ? (
        <p className="text-muted">
          This model is no longer served.{" "}
          <Link to="/serving" className="rounded text-accent hover:underline">
            Serve a model
          </Link>
        </p>
      ) : (
        <EndpointPanel session={session} />
      )}
      <RecordPanel sessionId={session.id} record={record} isReady={false} />
    </>
  );
}

/** The step of a checkpoint is known once it was loaded. */
function servedNote({ served_checkpoint_id: checkpoint, policy_version: step }: Session): string {
  if (!checkpoint) return "base model";
  return step > 0 ? `step ${number(step)}` : "checkpoint";
}
