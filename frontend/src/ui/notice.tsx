// A message that wants to be read: what happened, and what to do about it.
import type { ReactNode } from "react";
import { ApiError } from "../api/errors";

interface NoticeProps {
  tone?: "bad" | "warn" | "info";
  title: ReactNode;
  children?: ReactNode;
}

const TONES = {
  bad: "border-bad/40 bg-bad-soft text-bad",
  warn: "border-warn/40 bg-warn-soft text-warn",
  info: "border-accent/30 bg-accent-soft text-accent",
};

export function Notice({ tone = "info", title, children }: NoticeProps) {
  return (
    <div role={tone === "info" ? "status" : "alert"} className={`rounded-lg border px-4 py-3 ${TONES[tone]}`}>
      <p className="font-medium">{title}</p>
      {children && <div className="mt-1 text-ink">{children}</div>}
    </div>
  );
}

/** An error of the API with its hint; the id of the request leads an operator to its lines in the server's log. */
export function ErrorNotice({ error }: { error: Error | null }) {
  if (!error?.message) return null;
  const { hint, requestId, status } = error instanceof ApiError ? error : { hint: "", requestId: "", status: 0 };
  return (
    <Notice tone="bad" title={error.message}>
      {hint}
      {status >= 500 && requestId && <p className="mt-1 font-mono text-xs text-muted">request {requestId}</p>}
    </Notice>
  );
}
