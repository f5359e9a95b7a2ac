// Which tasks got better and which worse between two versions, and what the run says to one of them. The address has it all.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useParams } from "react-router";
import { sessionQuery } from "../../../api/sessions";
import {
  MOST_OF_A_VERSION,
  nearestPlaysQuery,
  versionEdgesQuery,
  versionEpisodesQuery,
  type VersionEdges,
} from "../../../api/task-episodes";
import { useAddress, useTypedPart } from "../../../ui/address-part";
import { ButtonLink } from "../../../ui/button";
import { inputClass } from "../../../ui/field";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty } from "../../../ui/panel";
import { useTitle } from "../../../ui/use-title";
import { SessionCrumb } from "../session-crumb";
import { ChangesPanel, type ChangesRead } from "./changes-panel";
import { TaskAnswers } from "./task-answers";
import { listedVersions, nearestChanges, taskChanges, versionOf, worstTask } from "./task-changes";

export function TasksPage() {
  const { id = "" } = useParams();
  const [address, setAddress] = useAddress();
  const session = useQuery(sessionQuery(id)).data;
  const of = address.get("of");
  const heldOut = useQuery(versionEdgesQuery(id, true));
  const isHeldOut = of === "held-out" || (of !== "training" && heldOut.data !== null); // without any, those that were trained
  const edges = useQuery(versionEdgesQuery(id, isHeldOut));
  const from = versionOf(address.get("from"), edges.data?.shared ?? 0);
  const to = versionOf(address.get("to"), edges.data?.high ?? 0);
  const changes = useChanges(id, { isHeldOut, from, to }, Boolean(edges.data));
  const task = address.get("task") ?? worstTask(changes.rows) ?? "";
  const versions = changes.rows.find((row) => row.task === task)?.played ?? [from, to];
  useTitle("Tasks", session);
  return (
    <div className="space-y-4">
      <SessionCrumb session={session} id={id} page="Tasks" />
      <div className="flex flex-wrap items-end gap-x-4 gap-y-2">
        <h1 className="mr-auto max-sm:basis-full text-xl font-semibold tracking-tight">Tasks</h1>
        <label className="flex flex-col gap-1 text-xs text-muted">
          Episodes
          <select
            className={inputClass}
            value={isHeldOut ? "held-out" : "training"}
            onChange={(event) => {
              const parts = { of: event.target.value, from: "", to: "", task: "" };
              setAddress(parts, { replace: false });
            }}
          >
            <option value="held-out">Held out</option>
            <option value="training">Trained</option>
          </select>
        </label>
        <VersionInput label="From version" part="from" shown={from} edges={edges.data ?? null} />
        <VersionInput label="To version" part="to" shown={to} edges={edges.data ?? null} />
      </div>
      <ErrorNotice error={edges.error} />
      {edges.isPending && <Loading />}
      {edges.data === null && <NoTasks id={id} isHeldOut={isHeldOut} />}
      {edges.data && (
        <div className="grid items-start gap-4 xl:grid-cols-2">
          <ChangesPanel changes={changes} from={from} to={to} chosen={task} edges={edges.data} />
          {!task && changes.rows.length > 0 && (
            <p className="p-4 text-muted">
              {from !== to && "No task got worse. "}Choose one to read its answers.
            </p>
          )}
          {task && !changes.isPending && (
            <TaskAnswers
              key={task}
              id={id}
              task={task}
              isHeldOut={isHeldOut}
              versions={[...new Set(versions)]}
            />
          )}
        </div>
      )}
    </div>
  );
}

function NoTasks({ id, isHeldOut }: { id: string; isHeldOut: boolean }) {
  const here = `/sessions/${id}`;
  return (
    <Empty title={isHeldOut ? "No held-out episode has ended" : "No episode was trained"}>
      <p className="mb-3">
        {isHeldOut
          ? "Held-out ones begin with begin_episode(task=…, eval=True)."
          : "Once a step is done, its tasks are here."}
      </p>
      <ButtonLink to={isHeldOut ? `${here}/tasks?of=training` : `${here}/episodes`}>
        {isHeldOut ? "Show those that were trained" : "Show its episodes"}
      </ButtonLink>
    </Empty>
  );
}

/** A list of the versions there are, unless they are so many that one is found sooner by typing it. */
function VersionInput({
  label,
  part,
  shown,
  edges,
}: {
  label: string;
  part: string;
  shown: number;
  edges: VersionEdges | null;
}) {
  const [, setAddress] = useAddress();
  const versions = listedVersions(edges ? [edges.low, edges.high] : [shown, shown], shown);
  return (
    <label className="flex flex-col gap-1 text-xs text-muted">
      {label}
      {versions ? (
        <select
          className={`${inputClass} w-28! tabular-nums`}
          value={shown}
          disabled={edges === null}
          onChange={(event) => {
            setAddress({ [part]: event.target.value });
          }}
        >
          {versions.map((version) => (
            <option key={version}>{version}</option>
          ))}
        </select>
      ) : (
        <TypedVersion part={part} shown={shown} />
      )}
    </label>
  );
}

function TypedVersion({ part, shown }: { part: string; shown: number }) {
  const [typed, setTyped] = useTypedPart(part);
  return (
    <input
      type="number"
      min={0}
      step={1}
      placeholder={String(shown)}
      value={typed}
      onChange={(event) => {
        setTyped(event.target.value);
      }}
      className={`${inputClass} w-28! tabular-nums`}
    />
  );
}

function useChanges(
  id: string,
  { isHeldOut, from, to }: { isHeldOut: boolean; from: number; to: number },
  enabled: boolean,
): ChangesRead {
  const before = useQuery({ ...versionEpisodesQuery(id, isHeldOut, from), enabled });
  const after = useQuery({ ...versionEpisodesQuery(id, isHeldOut, to), enabled });
  const rows = useMemo(
    () => (before.data && after.data ? taskChanges(before.data, after.data) : []),
    [before.data, after.data],
  );
  const isCut = [before, after].some(({ data }) => (data?.length ?? 0) >= MOST_OF_A_VERSION);
  const isApart =
    enabled &&
    from !== to &&
    Boolean(before.data && after.data) &&
    rows.every(({ change }) => change === null);
  const nearest = useQuery({ ...nearestPlaysQuery(id, isHeldOut, from, to), enabled: isApart });
  const near = useMemo(() => nearestChanges(nearest.data?.items ?? []), [nearest.data]);
  const isNear = isApart && near.length > 0;
  return {
    rows: isNear ? near : rows,
    near:
      isNear && nearest.data
        ? { reach: nearest.data.reach, tasks: nearest.data.tasks_in_all }
        : null,
    isCut: isCut && !isNear,
    isPending: before.isPending || after.isPending || (isApart && nearest.isPending),
    error: before.error ?? after.error ?? nearest.error,
  };
}
