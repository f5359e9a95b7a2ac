// Who drives a Tinker session, and what samples beside its models.
import type { TinkerRun } from "../../../api/types";
import { CopyButton, CopyText } from "../../../ui/copy";
import { ago, dateTime, number } from "../../../ui/format";
import { Panel } from "../../../ui/panel";
import { UserText } from "../../../ui/plain-text";

/** Who shares the session, each in the client's own words. */
export function ClientsPanel({ run }: { run: TinkerRun | undefined }) {
  if (!run) return null;
  return (
    <Panel title={run.clients.length === 1 ? "Tinker client" : "Tinker clients"}>
      <ul className="max-h-96 divide-y divide-line overflow-y-auto">
        {run.clients.map((client) => (
          <li key={client.tinker_session_id} className="pb-2">
            <ClientFacts client={client} />
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function ClientFacts({ client }: { client: TinkerRun["clients"][number] }) {
  const rows: [string, string][] = [
    ...(client.display_name ? [["Name", client.display_name] as [string, string]] : []),
    ["Version", client.sdk_version || "not told"],
    ...(client.tags.length > 0 ? [["Tags", client.tags.join(", ")] as [string, string]] : []),
    ...(client.finished === null
      ? []
      : [["Ended by its client", client.finished] as [string, string]]),
  ];
  return (
    <>
      <p className="px-4 pt-2">
        <CopyText label="the id of the client’s session" text={client.tinker_session_id} />
      </p>
      <dl className="divide-y divide-line">
        {rows.map(([name, value]) => (
          <div key={name} className="flex justify-between gap-3 px-4 py-1.5">
            <dt className="text-muted">{name}</dt>
            <dd className="min-w-0 text-right wrap-anywhere">
              <UserText text={value} />
            </dd>
          </div>
        ))}
      </dl>
      <div className="px-4">
        <Metadata values={client.user_metadata} />
      </div>
    </>
  );
}

export function SamplersPanel({ run }: { run: TinkerRun | undefined }) {
  if (!run || run.samplers === 0) return null;
  return (
    <Panel
      title="Sampling clients"
      actions={
        <span className="text-xs text-muted tabular-nums">{number(run.samplers)} in all</span>
      }
    >
      <ul className="max-h-80 divide-y divide-line overflow-y-auto">
        {run.newest_samplers.map((sampler) => (
          <li key={sampler.id} className="px-4 py-1.5">
            <span className="flex justify-between gap-3">
              <span className="min-w-0 wrap-anywhere">
                {sampler.model_path === null ? (
                  `${sampler.base_model}, the base model`
                ) : (
                  <SampledPath path={sampler.model_path} />
                )}
              </span>
              <span className="shrink-0 text-xs text-muted" title={dateTime(sampler.created_at)}>
                {ago(sampler.created_at)}
              </span>
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function SampledPath({ path }: { path: string }) {
  return (
    <>
      <UserText text={path} /> <CopyButton label={path} text={path} />
    </>
  );
}

/** What a client said of itself or of a model: its own names and values. */
export function Metadata({ values }: { values: Record<string, unknown> }) {
  return Object.entries(values).map(([name, value]) => (
    <span key={name} className="block text-xs font-normal wrap-anywhere text-muted">
      <UserText text={`${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`} />
    </span>
  ));
}
