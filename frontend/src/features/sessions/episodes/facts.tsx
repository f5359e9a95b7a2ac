// A row of named values at the head of a page.
import type { ReactNode } from "react";
import { Word } from "../../../ui/word";

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
