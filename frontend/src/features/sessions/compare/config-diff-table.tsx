// The options of the runs beside each other: those that differ, and on request all.
import type { Session } from "../../../api/types";
import { useAddress } from "../../../ui/address-part";
import { Panel } from "../../../ui/panel";
import { cell, headCell, Table } from "../../../ui/table";
import { UserText } from "../../../ui/plain-text";
import { valueText } from "../detail/option-rows";
import { ShowAllButton } from "../show-all-button";

interface DiffRow {
  name: string;
  /** One for each run, in their order; empty where a run has no such option. */
  values: string[];
  differs: boolean;
}

/** Base model, budget and every option, those that differ first. */
export function diffRows(sessions: readonly Session[]): DiffRow[] {
  const asked = sessions.map((session) => ({
    "base model": session.base_model,
    "began from": session.started_from?.checkpoint_id ?? "base model",
    ...Object.fromEntries(
      Object.entries(session.budget).map(([name, value]) => [`budget ${name}`, value]),
    ),
    ...session.config,
  })) as Record<string, Parameters<typeof valueText>[0] | undefined>[];
  const names = [...new Set(asked.flatMap((options) => Object.keys(options)))];
  const rows = names.map((name): DiffRow => {
    const values = asked.map((options) => {
      const value = options[name];
      return value === undefined ? "" : valueText(value);
    });
    return { name, values, differs: new Set(values).size > 1 };
  });
  return rows.sort((a, b) => Number(b.differs) - Number(a.differs));
}

export function ConfigDiffTable({
  sessions,
  names,
}: {
  sessions: readonly Session[];
  names: readonly string[];
}) {
  const [address, setAddress] = useAddress();
  const all = address.get("options") === "all";
  const rows = diffRows(sessions);
  const differing = rows.filter((row) => row.differs);
  const shown = all ? rows : differing;
  return (
    <Panel
      title="Options"
      actions={
        <ShowAllButton
          all={all}
          fewer="Show what differs"
          count={rows.length}
          onToggle={() => {
            setAddress({ options: all ? "" : "all" });
          }}
        />
      }
    >
      {shown.length === 0 && (
        <p className="px-4 py-2 text-muted">
          {sessions.length < 2
            ? "Add a run to see what differs."
            : "The runs were asked for the same: no option differs."}
        </p>
      )}
      {shown.length > 0 && (
        <Table
          label="Options of the runs"
          head={[{ name: "Option" }, ...names.map((name) => ({ name }))]}
        >
          {shown.map((row) => (
            <tr key={row.name}>
              <th scope="row" className={`${headCell} font-mono text-xs`}>
                {row.name}
              </th>
              {row.values.map((value, at) => (
                <td
                  key={sessions[at]?.id}
                  className={`${cell} max-w-64 break-words ${row.differs ? "font-medium" : "text-muted"}`}
                >
                  <UserText text={value || "–"} />
                </td>
              ))}
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}
