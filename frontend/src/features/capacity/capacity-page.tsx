// What the project has of the server and waits for; to the server's operator, what every project has.
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { capacityQuery } from "../../api/server";
import type { Capacity } from "../../api/types";
import { Fact } from "../../ui/fact";
import { dateTime, number, waited } from "../../ui/format";
import { Loading } from "../../ui/loading";
import { ErrorNotice, Notice } from "../../ui/notice";
import { Empty, PageHeader, Panel } from "../../ui/panel";
import { visible, UserText } from "../../ui/plain-text";
import { cell, headCell, Table } from "../../ui/table";
import { devicesText, nextText } from "./capacity-text";
import { PlacesPanel } from "./places-panel";

export function CapacityPage() {
  const { data, error, isPending } = useQuery(capacityQuery);
  return (
    <>
      <PageHeader title="Capacity" />
      <ErrorNotice error={error} />
      {isPending && <Loading />}
      {data && (
        <div className="space-y-4">
          {data.is_draining && (
            <Notice tone="warn" title="The server is draining">
              Its operator works on it: no session starts, and what runs saves its state and is
              suspended. It goes on once the drain is ended.
            </Notice>
          )}
          <Numbers capacity={data} />
          <div className="grid items-start gap-4 lg:grid-cols-2">
            <Running running={data.running} />
            <Waiting waiting={data.waiting} />
          </div>
          <PlacesPanel />
          {data.server && <Server server={data.server} most={data.max_runtimes} />}
        </div>
      )}
    </>
  );
}

function Numbers({
  capacity: { running, waiting, quotas, max_runtimes: most },
}: {
  capacity: Capacity;
}) {
  const { used, limit } = quotas.devices;
  return (
    <Panel title="This project now" className="overflow-hidden">
      <dl className="cells grid-cols-1 sm:grid-cols-3">
        <Fact term="Runtimes" note={`${number(most)} may run at once, of all projects`}>
          {number(running.length)}
        </Fact>
        <Fact
          term="Devices in use"
          note={
            limit === null
              ? "no limit; a runtime without a GPU counts as one"
              : `of ${number(limit)} that the project may use`
          }
        >
          <span className={limit !== null && used >= limit ? "text-warn" : ""}>{number(used)}</span>
        </Fact>
        <Fact term="Waiting" note={nextText(waiting)}>
          {number(waiting.length)}
        </Fact>
      </dl>
    </Panel>
  );
}

function Server({ server, most }: { server: NonNullable<Capacity["server"]>; most: number }) {
  const {
    runtimes,
    waiting,
    oldest_waits_since: oldest,
    warm_runtimes: warm,
    devices,
    projects,
  } = server;
  return (
    <>
      <Panel
        title="The whole server"
        className="overflow-hidden"
        actions={<span className="text-xs text-muted">You see this as its operator</span>}
      >
        <dl className="cells grid-cols-2 lg:grid-cols-4">
          <Fact term="Runtimes" note={`of ${number(most)}`}>
            <span className={runtimes >= most ? "text-warn" : ""}>{number(runtimes)}</span>
          </Fact>
          <Fact
            term="GPUs of this machine"
            note={
              devices.length === 0
                ? "runtimes are on CPUs, or a cluster has the devices"
                : devicesText(devices)
            }
          >
            {number(devices.length)}
          </Fact>
          <Fact
            term="Waiting"
            note={oldest === null ? "nothing waits" : `the oldest for ${waited(oldest)}`}
          >
            {number(waiting)}
          </Fact>
          <Fact term="Warm runtimes" note="with their libraries, without a session yet">
            {number(warm)}
          </Fact>
        </dl>
      </Panel>
      <Devices devices={devices} />
      <Projects projects={projects} />
    </>
  );
}

function Devices({ devices }: { devices: NonNullable<Capacity["server"]>["devices"] }) {
  if (devices.length === 0) return null;
  return (
    <Panel title="Devices of this machine">
      <ul className="cells rounded-b-lg sm:grid-cols-2 lg:grid-cols-4">
        {devices.map((device) => (
          <li key={device.device} className="min-w-0 bg-surface px-4 py-2">
            <p className="truncate font-medium" title={visible(device.device)}>
              GPU <UserText text={device.device} />
            </p>
            <p
              className={`truncate text-xs ${device.used_by === "nobody" ? "text-good" : "text-muted"}`}
              title={visible(device.session_id ?? "")}
            >
              {device.session_id === null ? (
                "free"
              ) : (
                <UserText text={device.session_name || device.session_id} />
              )}
            </p>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function Running({ running }: { running: Capacity["running"] }) {
  return (
    <Panel title="Running in this project">
      {running.length === 0 ? (
        <Empty title="Nothing runs" />
      ) : (
        <Table
          label="Running sessions"
          head={[
            { name: "Session" },
            { name: "State" },
            { name: "GPUs", right: true },
            { name: "Since" },
          ]}
        >
          {running.map((row) => (
            <tr key={row.session_id} className="hover:bg-sunken">
              <th scope="row" className={`${headCell} max-w-64`}>
                <SessionLink id={row.session_id} name={row.name} />
              </th>
              <td className={cell}>{row.state}</td>
              <td className={`${cell} text-right`}>
                {row.devices.length === 0 ? "–" : visible(row.devices.join(", "))}
              </td>
              <td className={`${cell} whitespace-nowrap`} title={dateTime(row.since)}>
                {waited(row.since)}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function Waiting({ waiting: rows }: { waiting: Capacity["waiting"] }) {
  return (
    <Panel title="Waiting in this project">
      {rows.length === 0 ? (
        <Empty title="Nothing waits" />
      ) : (
        <Table
          label="Waiting sessions"
          head={[{ name: "Session" }, { name: "Position", right: true }, { name: "Waits for" }]}
        >
          {rows.map((row) => (
            <tr key={row.session_id} className="hover:bg-sunken">
              <th scope="row" className={`${headCell} max-w-64`}>
                <SessionLink id={row.session_id} name={row.name} />
                {row.is_held && (
                  <span className="block text-xs font-normal text-warn">
                    held by the project’s quota of devices
                  </span>
                )}
              </th>
              <td className={`${cell} text-right`}>{number(row.position)}</td>
              <td className={`${cell} whitespace-nowrap`} title={dateTime(row.since)}>
                {waited(row.since)}
              </td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function Projects({ projects }: { projects: NonNullable<Capacity["server"]>["projects"] }) {
  return (
    <Panel title="Every project">
      {projects.length === 0 ? (
        <Empty title="No project has a runtime or waits" />
      ) : (
        <Table
          label="Projects"
          head={[
            { name: "Project" },
            { name: "Runtimes", right: true },
            { name: "Devices", right: true },
            { name: "Quota", right: true },
            { name: "Waiting", right: true },
          ]}
        >
          {projects.map((row) => (
            <tr key={row.project_id} className="hover:bg-sunken">
              <th scope="row" className={`${headCell} max-w-64 truncate`} title={visible(row.name)}>
                <UserText text={row.name} />
              </th>
              <td className={`${cell} text-right`}>{number(row.runtimes)}</td>
              <td className={`${cell} text-right`}>{number(row.devices)}</td>
              <td className={`${cell} text-right`}>
                {row.device_quota === null ? "none" : number(row.device_quota)}
              </td>
              <td className={`${cell} text-right`}>{number(row.waiting)}</td>
            </tr>
          ))}
        </Table>
      )}
    </Panel>
  );
}

function SessionLink({ id, name }: { id: string; name: string | null }) {
  return (
    <Link
      to={`/sessions/${id}`}
      title={visible(name ?? id)}
      className="block truncate rounded text-ink hover:text-accent hover:underline"
    >
      <UserText text={name || id} />
    </Link>
  );
}
