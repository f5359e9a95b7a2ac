// The options of the runs beside each other: those that differ, and on request all.
import type { Session } from "../../../api/types";
import { useAddress, withPart } from "../../../ui/address-part";
import { Panel } from "../../../ui/panel";
import { cell, headCell, Table } from "../../../ui/table";
import { UserText } from "../../../ui/user-text";
import { ShowAllButton } from "../show-all-button";
import { diffRows } from "./config-diff";

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
            setAddress((before) => withPart(before, "options", all ? "" : "all"), {
              replace: true,
            });
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
