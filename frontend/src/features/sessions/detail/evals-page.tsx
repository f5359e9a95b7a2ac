// What evaluations of a run came to, set by set.
import { useQuery } from "@tanstack/react-query";
import { lastMeasuresQuery } from "../../../api/metrics";
import { isExported } from "../../../api/offline";
import { hasEnded } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { ButtonLink } from "../../../ui/button";
import { number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty } from "../../../ui/panel";
import { RunPage } from "../run-page";
import { EvaluationsPanel } from "./evaluations-panel";

export function EvalsPage() {
  return <RunPage title="Evals" of={Evals} />;
}

function Evals({ session }: { session: Session }) {
  const { data, error } = useQuery(lastMeasuresQuery(session.id, !hasEnded(session)));
  if (!data) return error ? <ErrorNotice error={error} /> : <Loading />;
  if (data.played.length === 0) {
    const played = session.accounting.eval;
    return played > 0 ? (
      <Empty title="No evaluation has a name">
        <p className="mb-3">
          {played === 1 ? "One episode was" : `${number(played)} episodes were`} played with{" "}
          <code>eval=True</code>. What <code>session.evaluate</code> plays has a mean here, and one
          curve beside that of training.
        </p>
        <ButtonLink to={`/sessions/${session.id}/episodes?fate=eval`}>Show them</ButtonLink>
      </Empty>
    ) : (
      <Empty title="No evaluation yet">
        <p className="mb-3">
          <code>session.evaluate(agent, held_out_tasks)</code> plays tasks that are not trained.
          Their mean reward then stands beside that of training.
        </p>
        {!isExported && <ButtonLink to="/manual/howto/evaluation">How to evaluate</ButtonLink>}
      </Empty>
    );
  }
  return <EvaluationsPanel id={session.id} evaluations={data.played} />;
}
