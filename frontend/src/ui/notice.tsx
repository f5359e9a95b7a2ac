// A message that wants to be read: what happened, and what to do about it.
import { useQueryClient } from "@tanstack/react-query";
import { useContext, type ReactNode } from "react";
import { ApiError, isUnreachable, mayPass } from "../api/errors";
import { Button } from "./button";
import { HasConnectionBar } from "./connection-bar";

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
    <div
      role={tone === "info" ? "status" : "alert"}
      className={`rounded-lg border px-4 py-3 wrap-anywhere ${TONES[tone]}`}
    >
      <p className="font-medium">{title}</p>
      {children && <div className="mt-1 text-ink">{children}</div>}
    </div>
  );
}

/**
 * An error of the API with its hint; the id of the request leads an operator to its lines in the server's log. What could
 * not be read, and may be there in a moment, can be asked for again, with all else on the page that could not be read.
 */
export function ErrorNotice({ error }: { error: Error | null }) {
  const client = useQueryClient();
  const hasBar = useContext(HasConnectionBar);
  if (!error?.message) return null;
  const wasRead = client
    .getQueryCache()
    .getAll()
    .some((query) => query.state.error === error);
  if (hasBar && wasRead && isUnreachable(error)) return null; // said once, for the whole page
  const { hint, requestId, status } =
    error instanceof ApiError ? error : { hint: "", requestId: "", status: 0 };
  return (
    <Notice tone="bad" title={error.message}>
      {hint}
      {status >= 500 && requestId && (
        <p className="mt-1 font-mono text-xs text-muted">request {requestId}</p>
      )}
      {wasRead && mayPass(error) && (
        <p className="mt-2">
          <Button
            onClick={() => {
              void client.refetchQueries({ predicate: (query) => query.state.status === "error" });
            }}
          >
            Try again
          </Button>
        </p>
      )}
    </Notice>
  );
}
