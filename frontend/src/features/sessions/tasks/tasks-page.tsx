// Which tasks got better and which worse between two versions, and what the run says to one of them. The address has it all.
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useParams } from "react-router";
import { sessionQuery } from "../../../api/sessions";
import { MOST_OF_A_VERSION, versionEdgesQuery, versionEpisodesQuery, type VersionEdges } from "../../../api/task-episodes";
import { useAddress, useTypedPart, withPart } from "../../../ui/address-part";
import { inputClass } from "../../../ui/field";
import { number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty, Panel } from "../../../ui/panel";
import { SortedTable, type SortedColumn } from "../../../ui/sorted-table";
import { cell } from "../../../ui/table";
import { UserText } from "../../../ui/user-text";
import { useTitle } from "../../../ui/use-title";
import { SessionCrumb } from "../session-crumb";
import { TaskAnswers } from "./task-answers";
import { listedVersions, taskChanges, versionOf, worstTask, type TaskChange } from "./task-changes";

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
  useTitle("Tasks");
  return (
    <div className="space-y-4">
      <SessionCrumb session={session} id={id} page="Tasks" />
      <div className="flex flex-wrap items-end gap-x-4 gap-y-2">
        <h1 className="mr-auto text-xl font-semibold tracking-tight">Tasks</h1>
        <label className="flex flex-col gap-1 text-xs text-muted">
          Episodes
          <select
            className={inputClass}
            value={isHeldOut ? "held-out" : "training"}
            onChange={(event) => {
              const chosen = event.target.value;
              setAddress((before) => withPart(withPart(withPart(withPart(before, "of", chosen), "from", ""), "to", ""), "task", ""));
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
      {edges.data === null && <NoTasks isHeldOut={isHeldOut} />}
      {edges.data && (
        <div className="grid items-start gap-4 xl:grid-cols-2">
          <Changes changes={changes} from={from} to={to} chosen={task} />
          {task && <TaskAnswers key={task} id={id} task={task} isHeldOut={isHeldOut} versions={[...new Set([from, to])]} />}
        </div>
      )}
    </div>
  );
}

function NoTasks({ isHeldOut }: { isHeldOut: boolean }) {
  return (
    <Empty title={isHeldOut ? "No held-out episode has ended" : "No episode was trained"}>
      {isHeldOut ? "Begin one with begin_episode(task=…, eval=True), or look at those that were trained." : "Once a step is done, its tasks are here."}
    </Empty>
  );
}

/** A list of the versions there are, unless they are so many that one is found sooner by typing it. */
function VersionInput({ label, part, shown, edges }: { label: string; part: string; shown: number; edges: VersionEdges | null }) {
  const [, setAddress] = useAddress();
  const versions = listedVersions(edges ? [edges.low, edges.high] : [shown, shown], shown);
  return (
    <label className="flex flex-col gap-1 text-xs text-muted">
      {label}
      {versions ? (
        <select className={`${inputClass} w-28! tabular-nums`} value={shown} disabled={edges === null} onChange={(event) => { setAddress((now) => withPart(now, part, event.target.value), { replace: true }); }}>
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
  return <input type="number" min={0} step={1} placeholder={String(shown)} value={typed} onChange={(event) => { setTyped(event.target.value); }} className={`${inputClass} w-28! tabular-nums`} />;
}

interface ChangesRead {
  rows: TaskChange[];
  isPending: boolean;
  isCut: boolean;
  error: Error | null;
}

function useChanges(id: string, { isHeldOut, from, to }: { isHeldOut: boolean; from: number; to: number }, enabled: boolean): ChangesRead {
  const before = useQuery({ ...versionEpisodesQuery(id, isHeldOut, from), enabled });
  const after = useQuery({ ...versionEpisodesQuery(id, isHeldOut, to), enabled });
  const rows = useMemo(() => (before.data && after.data ? taskChanges(before.data, after.data) : []), [before.data, after.data]);
  const isCut = [before, after].some(({ data }) => (data?.length ?? 0) >= MOST_OF_A_VERSION);
  return { rows, isCut, isPending: before.isPending || after.isPending, error: before.error ?? after.error };
}

function Changes({ changes, from, to, chosen }: { changes: ChangesRead; from: number; to: number; chosen: string }) {
  const [, setAddress] = useAddress();
  const { rows, isCut, isPending, error } = changes;
  const head: SortedColumn<TaskChange>[] = [
    { name: "Task", value: (row) => row.task },
    { name: `Version ${String(from)}`, right: true, value: (row) => row.before },
    { name: from === to ? "The same" : `Version ${String(to)}`, right: true, value: (row) => row.after },
    { name: "Change", right: true, value: (row) => row.change },
  ];
  return (
    <Panel title="Mean reward, what lost most first">
      <ErrorNotice error={error} />
      {isPending && <div className="p-4"><Loading /></div>}
      {!isPending && !error && rows.length === 0 && <p className="p-4 text-muted">Neither version has an episode with a task and a reward. Others may: choose them above.</p>}
      {rows.length > 0 && (
        <SortedTable label="Rewards of tasks" head={head} rows={rows}>
          {(row) => (
            <tr key={row.task} className={row.task === chosen ? "bg-accent-soft" : undefined}>
              <td className={`${cell} max-w-64`}>
                <button
                  type="button"
                  aria-pressed={row.task === chosen}
                  className="block max-w-full truncate rounded text-left text-accent hover:underline"
                  onClick={() => { setAddress((now) => withPart(now, "task", row.task), { replace: true }); }}
                >
                  <UserText text={row.task} />
                </button>
              </td>
              <td className={`${cell} text-right`}>{number(row.before)}</td>
              <td className={`${cell} text-right`}>{number(row.after)}</td>
              <td className={`${cell} text-right font-medium ${(row.change ?? 0) < 0 ? "text-bad" : ""}`}>{changeText(row.change)}</td>
            </tr>
          )}
        </SortedTable>
      )}
      {rows.length > 0 && rows.every(({ change }) => change === null) && <p className="border-t border-line p-3 text-xs text-muted">No task was played under both versions: choose others, or the held-out episodes.</p>}
      {isCut && <p className="border-t border-line p-3 text-xs text-muted">Of the newest {number(MOST_OF_A_VERSION)} episodes of each version.</p>}
    </Panel>
  );
}

function changeText(change: number | null): string {
  if (change === null) return "–";
  return change > 0 ? `+${number(change)}` : number(change);
}
