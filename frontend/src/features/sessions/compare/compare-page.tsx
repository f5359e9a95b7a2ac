// Up to eight runs beside each other: what was asked of them, how they learned, where they stand, what they say.
import { useInfiniteQuery, useQueries, type UseQueryResult } from "@tanstack/react-query";
import { useMemo } from "react";
import { useSearchParams } from "react-router";
import { ApiError } from "../../../api/errors";
import { sessionQuery, sessionsQuery } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { ButtonLink } from "../../../ui/button";
import { Loading } from "../../../ui/loading";
import { ErrorNotice, Notice } from "../../../ui/notice";
import { Empty, PageHeader } from "../../../ui/panel";
import { visible } from "../../../ui/plain-text";
import { colourOf, runsOf } from "./compared-runs";
import { ConfigDiffTable } from "./config-diff-table";
import { EvalAnswers } from "./eval-answers";
import { FinalTable } from "./final-table";
import { OverlayCharts, type Compared } from "./overlay-charts";
import { NoSessions } from "../no-sessions";
import { EVERY, RunPicker } from "./run-picker";

export function ComparePage() {
  const [address] = useSearchParams();
  const ids = runsOf(address);
  const { found, errors, pending } = useQueries({
    queries: ids.map((id) => sessionQuery(id)),
    combine: together,
  });
  const runs = useMemo(
    () =>
      found.flatMap((session, at): Compared[] =>
        session
          ? [{ session, name: visible(session.name || session.id), colour: colourOf(at) }]
          : [],
      ),
    [found],
  );
  const hasNone = useInfiniteQuery(sessionsQuery(EVERY)).data?.pages[0]?.items.length === 0;
  const names = Object.fromEntries(runs.map((run) => [run.session.id, run.name]));
  const sessions = runs.map((run) => run.session);
  return (
    <>
      <PageHeader title="Compare runs" />
      <div className="space-y-4">
        {!(ids.length === 0 && hasNone) && <RunPicker names={names} />}
        {ids.map(
          (id, at) => errors[at] && !found[at] && <NotThere key={id} id={id} error={errors[at]} />,
        )}
        {ids.length === 0 && hasNone && <NoSessions />}
        {ids.length === 0 && !hasNone && (
          <Empty title="No run is chosen">
            <p className="mb-3">Add runs above, or tick them in the list of sessions.</p>
            <ButtonLink to="/sessions">All sessions</ButtonLink>
          </Empty>
        )}
        {pending && <Loading />}
        {runs.length > 0 && (
          <>
            <ConfigDiffTable sessions={sessions} names={runs.map((run) => run.name)} />
            <OverlayCharts runs={runs} />
            <FinalTable runs={runs} />
            <EvalAnswers runs={runs} />
          </>
        )}
      </div>
    </>
  );
}

/** Outside of the page: as the same function it keeps its result while the answers are the same. */
function together(answers: UseQueryResult<Session>[]) {
  return {
    found: answers.map((answer) => answer.data),
    errors: answers.map((answer) => answer.error),
    pending: answers.some((answer) => answer.isPending),
  };
}

/** One of the runs cannot be shown: the others can. */
function NotThere({ id, error }: { id: string; error: Error }) {
  if (!(error instanceof ApiError) || error.status !== 404) return <ErrorNotice error={error} />;
  return (
    <Notice tone="warn" title="One of the runs is not in this project">
      <span className="font-mono text-xs">{id}</span> may have been deleted, or be in another of
      your projects.
    </Notice>
  );
}
