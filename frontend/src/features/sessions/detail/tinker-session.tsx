// A session that tinker clients drive: its models, what their calls returned, its checkpoints. It has no episodes.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { hasEnded } from "../../../api/sessions";
import { spendingQuery } from "../../../api/usage";
import { tinkerRunQuery } from "../../../api/tinker";
import type { Session, TinkerModel, TinkerRun } from "../../../api/types";
import type { SessionRecord } from "../../../live/record";
import { CopyText } from "../../../ui/copy";
import { Fact } from "../../../ui/fact";
import { ago, count, dateTime, money, number, span } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty, Panel } from "../../../ui/panel";
import { cell, headCell, Table } from "../../../ui/table";
import { UserText } from "../../../ui/plain-text";
import { CreatedFact } from "./session-facts";
import { RecordPanel } from "./record-panel";
import { modelName, weightsOf } from "./tinker-columns";
import { ClientsPanel, Metadata, SamplersPanel } from "./tinker-clients";
import { ModelCurves } from "./tinker-curves";

const HEAD = [
  { name: "Model" },
  { name: "Trains" },
  { name: "Learning rate", right: true },
  { name: "Steps", right: true },
  { name: "Calls", right: true },
  { name: "Last request" },
];

export function TinkerSession({ session, record }: { session: Session; record: SessionRecord }) {
  const isLive = !hasEnded(session);
  const { data: run, error } = useQuery(tinkerRunQuery(session.id, isLive));
  const [chosen, setChosen] = useState("");
  const model = run?.models.find(({ id }) => id === chosen) ?? run?.models[0];
  return (
    <>
      <Facts session={session} run={run} />
      <ErrorNotice error={error} />
      <div className="grid items-start gap-4 xl:grid-cols-[minmax(0,2fr)_minmax(20rem,1fr)]">
        <div className="min-w-0 space-y-4">
          <Panel title="Models">
            {!run && !error && <Loading />}
            {run?.models.length === 0 && (
              <Empty title="No model yet">
                {isLive
                  ? "The client makes one with create_lora_training_client. Until then it only samples."
                  : "The client made none: it only sampled."}
              </Empty>
            )}
            {run && run.models.length > 0 && (
              <Table label="Models of the session" head={HEAD}>
                {run.models.map((each) => (
                  <ModelRow key={each.id} model={each} name={modelName(each.id, run)} />
                ))}
              </Table>
            )}
          </Panel>
          {run && model && (
            <ModelCurves
              key={model.id}
              session={session}
              run={run}
              model={model}
              isLive={isLive}
              onChoose={setChosen}
            />
          )}
          <RecordPanel sessionId={session.id} record={record} isReady={false} />
        </div>
        <div className="min-w-0 space-y-4">
          <ClientsPanel run={run} />
          <SamplersPanel run={run} />
        </div>
      </div>
    </>
  );
}

function Facts({ session, run }: { session: Session; run: TinkerRun | undefined }) {
  const models = run?.models ?? [];
  const last = models.reduce((newest, { last_request_at: at }) => (at > newest ? at : newest), "");
  const steps = models.reduce((sum, model) => sum + model.steps, 0);
  return (
    <dl className="cells grid-cols-2 rounded-lg border border-line sm:grid-cols-4 xl:grid-cols-7">
      <Fact term="Base model" note={`${number(session.config.max_context_length)} tokens a call`}>
        <span className="block text-sm leading-5 wrap-anywhere">{session.base_model}</span>
      </Fact>
      <Fact
        term="Models"
        note={
          run && run.samplers > 0
            ? `and ${number(run.samplers)} sampling ${run.samplers === 1 ? "client" : "clients"}`
            : "that its clients train"
        }
      >
        {run ? number(models.length) : "–"}
      </Fact>
      <Fact term="Optimizer steps" note="of all models">
        <span data-testid="steps">{run ? number(steps) : "–"}</span>
      </Fact>
      <Fact term="Last request" note="of training">
        <span className="text-sm" title={last && dateTime(last)}>
          {last ? ago(last) : "none yet"}
        </span>
      </Fact>
      <Fact
        term="Tokens"
        note={
          run
            ? `${count(run.tokens.sampling_prefill)} read, ${count(run.tokens.sampling_sample)} sampled`
            : "of training and sampling"
        }
      >
        <span data-testid="tokens">{run ? `${count(run.tokens.training)} trained` : "–"}</span>
      </Fact>
      <CostFact session={session} />
      <CreatedFact session={session} />
    </dl>
  );
}

function CostFact({ session }: { session: Session }) {
  const { data } = useQuery(spendingQuery(session.id, !hasEnded(session)));
  if (!data) return null;
  const { cost, cost_per_hour: perHour, device_s: deviceS, prices } = data;
  if (!prices)
    return (
      <Fact term="Device time" note="this server has no prices">
        {span(deviceS)}
      </Fact>
    );
  return (
    <Fact
      term="Cost so far"
      note={
        perHour === null
          ? `${span(deviceS)} of devices`
          : `${money(perHour, prices.currency)} an hour now`
      }
    >
      {money(cost, prices.currency)}
    </Fact>
  );
}

function ModelRow({ model, name }: { model: TinkerModel; name: string }) {
  return (
    <tr>
      <th scope="row" className={headCell}>
        {name}
        <span className="block font-normal">
          <CopyText label={`the id of ${name}`} text={model.id} />
        </span>
        {model.source_path !== null && (
          <span className="block text-xs font-normal wrap-anywhere text-muted">
            from <UserText text={model.source_path} />
          </span>
        )}
        <Metadata values={model.user_metadata ?? {}} />
      </th>
      <td className={cell}>{weightsOf(model)}</td>
      <td className={`${cell} text-right`}>
        {model.learning_rate === null ? "–" : number(model.learning_rate)}
      </td>
      <td className={`${cell} text-right`}>{number(model.steps)}</td>
      <td className={`${cell} text-right`}>{number(model.calls)}</td>
      <td className={`${cell} whitespace-nowrap`} title={dateTime(model.last_request_at)}>
        {ago(model.last_request_at)}
      </td>
    </tr>
  );
}
