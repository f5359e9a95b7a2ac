// A titled box, and the page that holds them.
import type { ReactNode } from "react";
import { PartBoundary } from "./boundary";
import { useTitle } from "./use-title";
import { UserText } from "./plain-text";
import { Word } from "./word";

interface PanelProps {
  title: string;
  /** The title is a name that somebody gave, not a word of ours. */
  isGiven?: boolean;
  actions?: ReactNode;
  children: ReactNode;
  className?: string;
}

export function Panel({ title, isGiven = false, actions, children, className = "" }: PanelProps) {
  return (
    <section aria-label={title} className={`rounded-lg border border-line bg-surface ${className}`}>
      <header className="flex min-h-10 flex-wrap items-center justify-between gap-x-3 border-b border-line px-4 py-1.5">
        <h2 className="text-sm font-semibold">
          {isGiven ? <UserText text={title} /> : <Word text={title} />}
        </h2>
        {actions}
      </header>
      <PartBoundary name={title}>{children}</PartBoundary>
    </section>
  );
}

interface PageHeaderProps {
  title: string;
  /** The run that the page belongs to. */
  of?: { name: string; id: string } | undefined;
  children?: ReactNode;
}

export function PageHeader({ title, of, children }: PageHeaderProps) {
  useTitle(title, of);
  return (
    <div className="mb-4 flex flex-wrap items-center justify-between gap-3">
      <h1 className="text-xl font-semibold tracking-tight">{title}</h1>
      <div data-page-actions className="print:hidden flex items-center gap-2">
        {children}
      </div>
    </div>
  );
}

interface EmptyProps {
  title: string;
  /** It stands for the whole page, not for a list in one. */
  isPage?: boolean;
  children?: ReactNode;
}

/** What stands where a list would, and the next step that fills it. */
export function Empty({ title, isPage = false, children }: EmptyProps) {
  return (
    <div className="flex flex-col items-center gap-3 px-6 py-10 text-center">
      {isPage ? <PageTitle title={title} /> : <p className="font-medium">{title}</p>}
      {children && <div className="max-w-prose text-muted">{children}</div>}
    </div>
  );
}

function PageTitle({ title }: { title: string }) {
  useTitle(title);
  return <h1 className="text-base font-medium">{title}</h1>;
}
