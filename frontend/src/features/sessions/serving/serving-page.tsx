// The models that are served now, and the form that serves a base model.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-router";
import { baseModelsQuery } from "../../../api/server";
import { servingQuery } from "../../../api/serving";
import type { Session } from "../../../api/types";
import { Button, ButtonLink } from "../../../ui/button";
import { SelectField } from "../../../ui/choices";
import { ago, dateTime } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty, PageHeader, Panel } from "../../../ui/panel";
import { cell, headCell, Table } from "../../../ui/table";
import { UserText } from "../../../ui/plain-text";
import { StateBadge } from "../state-badge";
import { useMayWrite } from "../../../use-may-write";
import { useServe } from "./use-serve";

const HEAD = [
  { name: "Session" },
  { name: "State" },
  { name: "Model" },
  { name: "Base model" },
  { name: "Created" },
];

export function ServingPage() {
  const { data, error, isPending } = useQuery(servingQuery);
  const mayWrite = useMayWrite();
  return (
    <>
      <PageHeader title="Serving">
        <ButtonLink to="/playground">Playground</ButtonLink>
      </PageHeader>
      <div className="space-y-4">
        <ErrorNotice error={error} />
        {isPending && <Loading />}
        {data && (
          <div className="rounded-lg border border-line bg-surface">
            {data.items.length === 0 ? (
              <Empty title="No model is served">
                An engine without a trainer answers calls of a base model or of a checkpoint. Serve
                one below, or open a model checkpoint on its session’s page: “Serve this model”.
              </Empty>
            ) : (
              <Table label="Served models" head={HEAD}>
                {data.items.map((session) => (
                  <Row key={session.id} session={session} />
                ))}
              </Table>
            )}
            {data.next_cursor && (
              <p className="border-t border-line px-4 py-2 text-xs text-muted">
                The newest hundred; the others are in the list of all sessions.
              </p>
            )}
          </div>
        )}
        {mayWrite && <ServeBaseModel />}
      </div>
    </>
  );
}

function Row({ session }: { session: Session }) {
  return (
    <tr className="hover:bg-sunken">
      <th scope="row" className={`${headCell} max-w-64`}>
        <Link
          to={`/sessions/${session.id}`}
          className="block truncate rounded text-ink hover:text-accent hover:underline"
        >
          <UserText text={session.name} />
        </Link>
      </th>
      <td className={cell}>
        <StateBadge state={session.state} />
      </td>
      <td className={cell}>
        {session.served_checkpoint_id ? (
          <span className="font-mono text-xs">{session.served_checkpoint_id}</span>
        ) : (
          "base model"
        )}
      </td>
      <td className={cell}>{session.base_model}</td>
      <td className={`${cell} whitespace-nowrap`} title={dateTime(session.created_at)}>
        {ago(session.created_at)}
      </td>
    </tr>
  );
}

function ServeBaseModel() {
  const { data, error } = useQuery(baseModelsQuery);
  const models = data?.items ?? [];
  const [chosen, setChosen] = useState("");
  const serve = useServe();
  const model = chosen || (models[0]?.name ?? "");
  return (
    <Panel title="Serve a base model">
      <form
        className="space-y-3 p-4"
        onSubmit={(event) => {
          event.preventDefault();
          serve.mutate({ model });
        }}
      >
        <ErrorNotice error={serve.error ?? error} />
        <div className="flex flex-wrap items-end gap-3">
          <div className="w-72 max-w-full">
            <SelectField label="Base model" value={model} onChange={setChosen}>
              {models.map(({ name }) => (
                <option key={name}>{name}</option>
              ))}
            </SelectField>
          </div>
          <Button type="submit" look="primary" disabled={!model || serve.isPending}>
            Serve
          </Button>
        </div>
        <p className="text-xs text-muted">
          It waits in the queue like a session that trains, suspends after ten minutes without a
          call, and starts again at the next one.
        </p>
      </form>
    </Panel>
  );
}
