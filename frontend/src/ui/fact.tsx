// Named values, several in a <dl>: large ones that answer a question at a glance, and a row of them at the head of a page.
import type { ReactNode } from "react";
import { Word } from "./word";

interface FactProps {
  term: string;
  note: string;
  children: ReactNode;
}

/** A number that answers a question at a glance, with its name above and what it means below. */
export function Fact({ term, note, children }: FactProps) {
  return (
    <div className="min-w-0 bg-surface px-4 py-3">
      <dt className="text-xs text-muted">
        <Word text={term} />
      </dt>
      <dd className="mt-0.5 flex min-h-7 items-center text-lg leading-6 font-semibold tabular-nums">
        {children}
      </dd>
      <dd className="text-xs break-words text-muted">{note}</dd>
    </div>
  );
}

/** A row of named values at the head of a page. */
export function Facts({ facts }: { facts: [string, ReactNode][] }) {
  return (
    <dl className="mt-3 grid grid-cols-2 gap-x-6 gap-y-3 rounded-lg border border-line bg-surface p-4 sm:grid-cols-4 xl:grid-cols-8">
      {facts.map(([name, value]) => (
        <div key={name} className="min-w-0">
          <dt className="text-xs break-words text-muted">
            <Word text={name} />
          </dt>
          <dd className="truncate font-semibold tabular-nums">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
