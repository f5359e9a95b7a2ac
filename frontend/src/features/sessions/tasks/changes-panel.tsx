// The tasks that two versions have in common, or were played near both, with what each earned: largest drop first.
import { MOST_OF_A_VERSION, type VersionEdges } from "../../../api/task-episodes";
import { useAddress } from "../../../ui/address-part";
import { Button } from "../../../ui/button";
import { number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Panel } from "../../../ui/panel";
import { SortedTable, type SortedColumn } from "../../../ui/sorted-table";
import { cell } from "../../../ui/table";
import { UserText } from "../../../ui/plain-text";
import type { TaskChange } from "./task-changes";

export interface ChangesRead {
  rows: TaskChange[];
  /** Where no task was played under both versions: how far away the compared plays are, and how many tasks have such. */
  near: { reach: number | null; tasks: number } | null;
  isPending: boolean;
  isCut: boolean;
  error: Error | null;
}

export function ChangesPanel({
  changes,
  from,
  to,
  chosen,
  edges,
}: {
  changes: ChangesRead;
  from: number;
  to: number;
  chosen: string;
  edges: VersionEdges;
}) {
  const [, setAddress] = useAddress();
  const { rows, near, isCut, isPending, error } = changes;
  const isOne = from === to;
  const head: SortedColumn<TaskChange>[] = [
    { name: "Task", value: (row) => row.task },
    {
      name: `${near ? "Near version" : "Version"} ${String(from)}`,
      right: true,
      value: (row) => row.before,
    },
    ...(isOne
      ? []
      : ([
          {
            name: `${near ? "Near version" : "Version"} ${String(to)}`,
            right: true,
            value: (row) => row.after,
          },
          { name: "Change", right: true, value: (row) => row.change },
        ] satisfies SortedColumn<TaskChange>[])),
  ];
  return (
    <Panel title={isOne ? "Mean reward" : "Mean reward, largest drop first"}>
      <ErrorNotice error={error} />
      {isPending && (
        <div className="p-4">
          <Loading />
        </div>
      )}
      {near && (
        <p className="border-b border-line px-4 py-3 text-xs text-muted">
          No task was played under both versions. Compared here: each task when it was played
          nearest to them
          {near.reach === null ? "" : `, at most ${number(near.reach)} versions away`}.
          {near.tasks > rows.length &&
            ` The ${number(rows.length)} that fell most, of ${number(near.tasks)}.`}
        </p>
      )}
      {!isPending && !error && rows.length === 0 && (
        <p className="p-4 text-muted">Neither version has an episode with a task and a reward.</p>
      )}
      {rows.length > 0 && (
        <div className="sm:[&_th]:whitespace-nowrap">
          <SortedTable label="Rewards of tasks" head={head} rows={rows}>
            {(row) => (
              <tr key={row.task} className={row.task === chosen ? "bg-accent-soft" : undefined}>
                <td className={`${cell} sm:w-full sm:max-w-0`}>
                  <button
                    type="button"
                    aria-pressed={row.task === chosen}
                    className="block max-w-full truncate rounded text-left text-accent hover:underline"
                    onClick={() => {
                      setAddress({ task: row.task });
                    }}
                  >
                    <UserText text={row.task} />
                  </button>
                </td>
                <td className={`${cell} text-right`}>
                  <Played reward={row.before} version={row.played?.[0]} />
                </td>
                {!isOne && (
                  <>
                    <td className={`${cell} text-right`}>
                      <Played reward={row.after} version={row.played?.[1]} />
                    </td>
                    <td
                      className={`${cell} text-right font-medium ${(row.change ?? 0) < 0 ? "text-bad" : ""}`}
                    >
                      {changeText(row.change)}
                    </td>
                  </>
                )}
              </tr>
            )}
          </SortedTable>
        </div>
      )}
      {!isPending && !error && (isOne || rows.every(({ change }) => change === null)) && (
        <NoneShared from={from} to={to} edges={edges} />
      )}
      {isCut && (
        <p className="border-t border-line p-3 text-xs text-muted">
          Of the newest {number(MOST_OF_A_VERSION)} episodes of each version.
        </p>
      )}
    </Panel>
  );
}

/** A mean reward, and under which version it was earned where the column does not say it. */
function Played({ reward, version }: { reward: number | null; version: number | undefined }) {
  return (
    <>
      {number(reward)}
      {version !== undefined && (
        <span className="block text-xs whitespace-nowrap text-muted">version {version}</span>
      )}
    </>
  );
}

function NoneShared({ from, to, edges }: { from: number; to: number; edges: VersionEdges }) {
  const [, setAddress] = useAddress();
  const { low, shared, high } = edges;
  return (
    <div className="flex flex-wrap items-center gap-2 border-t border-line px-4 py-3 text-xs text-muted">
      <p>
        {low === high
          ? `Only version ${String(low)} was played. Tasks are compared once a step has led to the next.`
          : from === to
            ? "One version is not compared with itself."
            : "No task was played near both versions."}
      </p>
      {shared !== high && (shared !== from || high !== to) && (
        <Button
          onClick={() => {
            setAddress({ from: "", to: "" });
          }}
        >
          Compare versions {shared} and {high}
        </Button>
      )}
    </div>
  );
}

function changeText(change: number | null): string {
  if (change === null) return "–";
  return change > 0 ? `+${number(change)}` : number(change);
}
