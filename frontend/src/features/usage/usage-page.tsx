// What the project's sessions used, and what it holds of its quotas.
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { DevicePrices, SessionUsage, Usage } from "../../api/types";
import { usageQuery } from "../../api/usage";
import { ButtonLink } from "../../ui/button";
import { Fact } from "../../ui/fact";
import { ago, count, dateTime, money, number, price, span } from "../../ui/format";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { Empty, PageHeader, Panel } from "../../ui/panel";
import { visible, UserText } from "../../ui/plain-text";
import { ShowOlder, cell, headCell, Table } from "../../ui/table";
import { useMayWrite } from "../../use-may-write";
import { DaysPanel } from "./days-panel";
import { QuotasPanel } from "./quotas-panel";

const COST = { name: "Cost", right: true };
const HEAD = [
  { name: "Session" },
  { name: "Base model" },
  { name: "Runtime", right: true },
  { name: "GPU time", right: true },
  { name: "Steps", right: true },
  { name: "Tokens trained", right: true },
  { name: "Created" },
];

export function UsagePage() {
  const query = useInfiniteQuery(usageQuery);
  const { data, error, isPending } = query;
  const newest = data?.pages[0];
  const mayWrite = useMayWrite();
  const sessions = data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      <PageHeader title="Usage">
        <ButtonLink to="/capacity">Capacity</ButtonLink>
      </PageHeader>
      <ErrorNotice error={error} />
      {isPending && <Loading />}
      {newest && (
        <div className="space-y-4">
          <DaysPanel />
          <TotalPanel total={newest.total} prices={newest.prices} />
          <QuotasPanel quotas={newest.quotas} />
          <Panel title="By session">
            {sessions.length === 0 ? (
              <Empty title="No session yet">
                <p className="mb-3">
                  A session is counted from the moment at which its runtime registers. Waiting costs
                  nothing, in the queue of this server and in that of a cluster.
                </p>
                {mayWrite && <ButtonLink to="/sessions/new">New session</ButtonLink>}
              </Empty>
            ) : (
              <Table label="Usage by session" head={newest.prices ? [...HEAD, COST] : HEAD}>
                {sessions.map((session) => (
                  <SessionRow key={session.session_id} session={session} prices={newest.prices} />
                ))}
              </Table>
            )}
          </Panel>
        </div>
      )}
      <ShowOlder query={query} />
    </>
  );
}

function TotalPanel({ total, prices }: { total: Usage; prices: DevicePrices | null }) {
  return (
    <Panel title="All sessions" className="overflow-hidden">
      <dl
        className={`cells grid-cols-2 ${prices ? "sm:grid-cols-3 xl:grid-cols-5" : "sm:grid-cols-4"}`}
      >
        {prices && (
          <Fact term="Cost" note={pricesText(prices)}>
            <span className="whitespace-nowrap">{money(total.cost, prices.currency)}</span>
          </Fact>
        )}
        <Fact term="Runtime" note="all time, with deleted sessions">
          <span className="whitespace-nowrap">{span(total.runtime_s)}</span>
        </Fact>
        <Fact term="GPU time" note="two GPUs for an hour: 2 h">
          <span className="whitespace-nowrap">{span(total.gpu_s)}</span>
        </Fact>
        <Fact term="Steps" note="optimizer updates">
          {number(total.steps)}
        </Fact>
        <Fact term="Tokens trained" note="in these steps">
          <span title={number(total.tokens_trained)}>{count(total.tokens_trained)}</span>
        </Fact>
      </dl>
    </Panel>
  );
}

function pricesText({ gpu, cpu, currency }: DevicePrices): string {
  return `${price(gpu, currency)} a GPU-hour, ${price(cpu, currency)} an hour without`;
}

function SessionRow({ session, prices }: { session: SessionUsage; prices: DevicePrices | null }) {
  const right = `${cell} text-right whitespace-nowrap`;
  return (
    <tr className="hover:bg-sunken">
      <th scope="row" className={`${headCell} max-w-64`}>
        <Link
          to={`/sessions/${session.session_id}`}
          title={visible(session.name)}
          className="block truncate rounded text-ink hover:text-accent hover:underline"
        >
          <UserText text={session.name} />
        </Link>
        {session.name !== session.session_id && (
          <span className="block truncate font-mono text-xs font-normal text-muted">
            {session.session_id}
          </span>
        )}
      </th>
      <td className={`${cell} max-w-56 truncate`} title={session.base_model}>
        {session.base_model}
      </td>
      <td className={right} title={`${number(session.runtime_s)} seconds`}>
        {span(session.runtime_s)}
      </td>
      <td className={right} title={`${number(session.gpu_s)} seconds`}>
        {span(session.gpu_s)}
      </td>
      <td className={right}>{number(session.steps)}</td>
      <td className={right}>{number(session.tokens_trained)}</td>
      <td className={`${cell} whitespace-nowrap`} title={dateTime(session.created_at)}>
        {ago(session.created_at)}
      </td>
      {prices && <td className={right}>{money(session.cost, prices.currency)}</td>}
    </tr>
  );
}
