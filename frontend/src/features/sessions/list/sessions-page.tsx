// All sessions of the project: pinned ones first, then the newest, if not sorted otherwise.
import { useInfiniteQuery, type QueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import { sessionsQuery } from "../../../api/sessions";
import type { Session } from "../../../api/types";
import { ButtonLink } from "../../../ui/button";
import { ago, dateTime, number } from "../../../ui/format";
import { Loading } from "../../../ui/loading";
import { ErrorNotice } from "../../../ui/notice";
import { Empty, PageHeader } from "../../../ui/panel";
import { visible, UserText } from "../../../ui/plain-text";
import { ShowOlder, cell, headCell, Table, type Sort } from "../../../ui/table";
import { causeOf } from "../detail/failure-notice";
import { MAX_RUNS } from "../compare/compared-runs";
import { columnsIn } from "../episodes/own-columns";
import { measureOf, measuresOf, measureTitle } from "./measure-columns";
import { filterOf, isNarrowed, measureSort, sortsOf } from "./session-filter";
import { SessionsFilterBar } from "./sessions-filter-bar";
import { useLiveList } from "./use-live-list";
import { NoSessions } from "../no-sessions";
import { LinkState } from "../link-state";
import { TagLinks } from "../tag-links";
import { StateBadge } from "../state-badge";
import { useMayWrite } from "../../../use-may-write";

const HEAD = [
  { name: "Compare" },
  { name: "Session" },
  { name: "State" },
  { name: "Base model" },
  { name: "Steps", right: true },
  { name: "Reward", right: true },
  { name: "Episodes", right: true },
  { name: "Created" },
];

const listOf = (address: URLSearchParams) => ({ ...filterOf(address), measures: true });

/** The first page of the list that the address asks for. */
export function sessionsWarm(client: QueryClient): Promise<unknown> {
  return client.prefetchInfiniteQuery(sessionsQuery(listOf(new URLSearchParams(location.search))));
}

export function SessionsPage() {
  const [address, setAddress] = useSearchParams();
  const filter = listOf(address);
  const own = columnsIn(address);
  const isFiltered = isNarrowed(filter);
  const mayWrite = useMayWrite();
  const { link, heardAt } = useLiveList(filter);
  const query = useInfiniteQuery(sessionsQuery(filter, link.status === "live"));
  const { data, error, isPending, isPlaceholderData, dataUpdatedAt } = query;
  const sorts = sortsOf(address);
  const columns = [
    ...HEAD.map((column) => ({ ...column, ...sorts[column.name] })),
    ...own.map((name) => ({
      name: visible(measureTitle(name)),
      right: true,
      ...measureSort(address, name),
    })),
  ];
  const head = columns.map(({ direction, turned, ...column }) => {
    return direction && turned
      ? {
          ...column,
          sort: {
            direction,
            onSort: (next: Sort["direction"]) => {
              setAddress(turned(next), { replace: true });
            },
          },
        }
      : column;
  });
  const [chosen, setChosen] = useState<string[]>([]);
  const sessions = data?.pages.flatMap((page) => page.items);
  return (
    <>
      <PageHeader title="Sessions">
        <LinkState link={link} heardAt={heardAt && Math.max(heardAt, dataUpdatedAt)} />
        {chosen.length > 0 && (
          <ButtonLink to={`/compare?runs=${chosen.join(",")}`}>Compare {chosen.length}</ButtonLink>
        )}
        {mayWrite && (
          <ButtonLink to="/sessions/new" look="primary">
            New session
          </ButtonLink>
        )}
      </PageHeader>
      {(isPending || isFiltered || (sessions && sessions.length > 0)) && (
        <SessionsFilterBar measured={measuresOf(sessions ?? [])} />
      )}
      <ErrorNotice error={error} />
      <div
        aria-busy={isPlaceholderData}
        className={`rounded-lg border border-line bg-surface ${isPlaceholderData ? "opacity-60" : ""}`}
      >
        {isPending && <Loading isTable />}
        {sessions?.length === 0 && (isFiltered ? <NoMatch /> : <NoSessions />)}
        {sessions && sessions.length > 0 && (
          <Table label="Sessions" head={head}>
            {sessions.map((session) => (
              <SessionRow
                key={session.id}
                session={session}
                own={own}
                isChosen={chosen.includes(session.id)}
                isFull={chosen.length >= MAX_RUNS}
                onChoose={(isChosen) => {
                  setChosen((before) =>
                    isChosen ? [...before, session.id] : before.filter((id) => id !== session.id),
                  );
                }}
              />
            ))}
          </Table>
        )}
      </div>
      <ShowOlder query={query} />
    </>
  );
}

function NoMatch() {
  return (
    <Empty title="No session matches">
      <ButtonLink to="/sessions">Show all sessions</ButtonLink>
    </Empty>
  );
}

interface RowProps {
  session: Session;
  /** The measures that have a column. */
  own: readonly string[];
  isChosen: boolean;
  /** As many are chosen as can be compared. */
  isFull: boolean;
  onChoose: (isChosen: boolean) => void;
}

function SessionRow({ session, own, isChosen, isFull, onChoose }: RowProps) {
  const right = `${cell} text-right`;
  return (
    <tr className="hover:bg-sunken">
      <td className={`${cell} w-0`}>
        {session.kind === "episodes" && (
          <input
            type="checkbox"
            aria-label={`Compare ${visible(session.name || session.id)}`}
            checked={isChosen}
            disabled={isFull && !isChosen}
            title={isFull && !isChosen ? "Eight runs at most" : undefined}
            onChange={(event) => {
              onChoose(event.target.checked);
            }}
          />
        )}
      </td>
      <th scope="row" className={`${headCell} max-w-64`}>
        <Link
          to={`/sessions/${session.id}`}
          title={visible(session.name)}
          className="block truncate rounded text-ink hover:text-accent hover:underline"
        >
          <UserText text={session.name || session.id} />
        </Link>
        {session.name !== session.id && (
          <span className="block truncate font-mono text-xs font-normal text-muted">
            {session.id}
          </span>
        )}
        <span className="flex flex-wrap gap-1">
          {session.kind !== "episodes" && (
            <span className="rounded bg-sunken px-1.5 text-xs font-normal text-muted">
              {session.kind === "tinker" ? "Tinker client" : session.kind}
            </span>
          )}
          {session.pinned && (
            <span className="rounded bg-accent-soft px-1.5 text-xs font-normal text-accent">
              pinned
            </span>
          )}
          <TagLinks tags={session.tags} />
        </span>
      </th>
      <td className={cell}>
        <StateBadge state={session.state} />
        {session.queue_position !== null && (
          <span className="ml-2 text-xs text-muted">position {session.queue_position}</span>
        )}
        {session.failure && (
          <UserText
            className="block max-w-56 truncate text-xs text-bad"
            text={causeOf(session.failure).title}
          />
        )}
      </td>
      <td className={`${cell} max-w-56 truncate`} title={session.base_model}>
        {session.base_model}
      </td>
      <td className={right}>{session.kind === "serving" ? "–" : number(session.policy_version)}</td>
      <td className={right}>{number(session.reward_mean)}</td>
      <td className={right}>
        {session.kind === "episodes" ? number(session.accounting.begun) : "–"}
      </td>
      <td className={`${cell} whitespace-nowrap`} title={dateTime(session.created_at)}>
        {ago(session.created_at)}
      </td>
      {own.map((name) => (
        <td key={name} className={right}>
          {number(measureOf(session, name))}
        </td>
      ))}
    </tr>
  );
}
