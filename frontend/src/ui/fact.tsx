// A number that answers a question at a glance, with its name above and what it means below. Several stand in a <dl>.
import type { ReactNode } from "react";
import { Word } from "./word";

interface FactProps {
  term: string;
  note: string;
  children: ReactNode;
}

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
