// When a session was created, and how often it was started anew: the last of its facts, whatever its kind.
import type { Session } from "../../../api/types";
import { Fact } from "../../../ui/fact";
import { ago, dateTime, restartsText } from "../../../ui/format";

export function CreatedFact({ session }: { session: Session }) {
  return (
    <Fact term="Created" note={restartsText(session.restarts)}>
      <span className="text-sm" title={dateTime(session.created_at)}>
        {ago(session.created_at)}
      </span>
    </Fact>
  );
}
