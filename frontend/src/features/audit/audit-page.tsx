// Who did what in the project, newest first.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { auditQuery, type AuditFilter } from "../../api/audit";
import type { AuditEntry } from "../../api/types";
import { ButtonLink } from "../../ui/button";
import { rangeOf, DateRange } from "../../ui/date-range";
import { dateTime } from "../../ui/format";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { Empty, PageHeader } from "../../ui/panel";
import { visible } from "../../ui/plain-text";
import { SearchInput } from "../../ui/search-input";
import { ShowOlder, cell, headCell, Table } from "../../ui/table";

/** Actions are shown with spaces and kept with underscores. */
export function filterOf(address: URLSearchParams): AuditFilter {
  const part = (name: string) => (address.get(name) ?? "").trim();
  return {
    actor: part("actor"),
    action: part("action").replaceAll(" ", "_"),
    target: part("target"),
    ...rangeOf(address),
  };
}

export function isFiltered(filter: AuditFilter): boolean {
  return Object.values(filter).some(Boolean);
}

const HEAD = [
  { name: "No.", right: true },
  { name: "When" },
  { name: "Who" },
  { name: "What" },
  { name: "On" },
  { name: "Hash" },
];

export function AuditPage() {
  const [address] = useSearchParams();
  const filter = filterOf(address);
  const query = useInfiniteQuery(auditQuery(filter));
  const { data, error, isPending, isPlaceholderData } = query;
  const entries = data?.pages.flatMap((page) => page.items);
  return (
    <>
      <PageHeader title="Audit log" />
      <p className="mb-4 max-w-prose text-muted">
        Each entry carries a hash over itself and the one before it, so that nothing can be changed
        unseen. The operator of the server checks the whole of it with{" "}
        <code className="font-mono text-xs">manage.py verify_audit</code>.
      </p>
      <ErrorNotice error={error} />
      <search className="mb-3 flex flex-wrap gap-3">
        <SearchInput part="actor" label="Who" maxLength={320} />
        <SearchInput part="action" label="What" maxLength={80} />
        <SearchInput part="target" label="On" maxLength={200} />
        <DateRange />
      </search>
      <div
        aria-busy={isPlaceholderData}
        className={`rounded-lg border border-line bg-surface ${isPlaceholderData ? "opacity-60" : ""}`}
      >
        {isPending && <Loading />}
        {entries?.length === 0 && isFiltered(filter) && (
          <Empty title={query.hasNextPage ? "No entry matches so far" : "No entry matches"}>
            <p className="mb-3">
              Names, actions and ids are searched for what is typed, in any case, 10,000 entries at
              a time.
            </p>
            <ButtonLink to="/audit">Show all entries</ButtonLink>
          </Empty>
        )}
        {entries?.length === 0 && !isFiltered(filter) && (
          <Empty title="No entry yet">
            What members, keys and operators do in this project is recorded here by itself.
          </Empty>
        )}
        {entries && entries.length > 0 && (
          <Table label="Entries of the audit log" head={HEAD}>
            {entries.map((entry) => (
              <Row key={entry.number} entry={entry} />
            ))}
          </Table>
        )}
      </div>
      <ShowOlder query={query} />
    </>
  );
}

function Row({ entry }: { entry: AuditEntry }) {
  const details = Object.keys(entry.details).length ? visible(JSON.stringify(entry.details)) : "";
  return (
    <tr>
      <td className={`${cell} text-right text-muted`}>{entry.number}</td>
      <td className={`${cell} whitespace-nowrap`}>{dateTime(entry.at)}</td>
      <td className={cell}>
        {entry.actor}
        {entry.key_id && <span className="block font-mono text-xs text-muted">{entry.key_id}</span>}
      </td>
      <th scope="row" className={`${headCell} text-ink`}>
        {entry.action.replaceAll("_", " ")}
      </th>
      <td className={`${cell} font-mono text-xs`}>
        {Object.values(entry.target).join(" ")}
        {details && (
          <details className="max-w-96 text-muted">
            <summary className="truncate">{details}</summary>
            <pre className="mt-1 whitespace-pre-wrap wrap-anywhere">
              {visible(JSON.stringify(entry.details, null, 2))}
            </pre>
          </details>
        )}
      </td>
      <td className={`${cell} font-mono text-xs text-muted`} title={entry.sha256}>
        {entry.sha256.slice(0, 8)}
      </td>
    </tr>
  );
}
