// The places of the server, for everybody: what a session may name, and how much room there is.
import { useQuery } from "@tanstack/react-query";
import { placesQuery } from "../../api/server";
import { number } from "../../ui/format";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { Panel } from "../../ui/panel";
import { visible } from "../../ui/plain-text";
import { cell, headCell, Table } from "../../ui/table";

export function PlacesPanel() {
  const { data, error } = useQuery(placesQuery);
  return (
    <Panel
      title="Places where sessions run"
      actions={
        <span className="text-xs text-muted">
          with the sessions of this project; to an operator, of all
        </span>
      }
    >
      <ErrorNotice error={error} />
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Places"
          head={[
            { name: "Place" },
            { name: "Machines" },
            { name: "Launcher" },
            { name: "Running", right: true },
            { name: "At most", right: true },
            { name: "Waiting", right: true },
          ]}
        >
          {data.items.map((place) => (
            <tr key={place.name} className="hover:bg-sunken">
              <th scope="row" className={headCell}>
                <code>{visible(place.name)}</code>
              </th>
              <td className={cell}>
                {place.kind === "" ? "this server’s own" : visible(place.kind)}
              </td>
              <td className={cell}>{place.launcher}</td>
              <td className={`${cell} text-right`}>
                <span className={place.running >= place.max_runtimes ? "text-warn" : ""}>
                  {number(place.running)}
                </span>
              </td>
              <td className={`${cell} text-right`}>{number(place.max_runtimes)}</td>
              <td className={`${cell} text-right`}>{number(place.queued)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}
