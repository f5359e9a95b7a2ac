// The last lines that the session's runtime wrote, oldest first, asked for again on a click.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { logsQuery } from "../../../api/sessions";
import { Button } from "../../../ui/button";
import { number, timeOfDay } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";

export function RuntimeLog({ sessionId }: { sessionId: string }) {
  const { data, error, isFetching, refetch, dataUpdatedAt } = useQuery(logsQuery(sessionId));
  const block = useRef<HTMLPreElement>(null);

  // The newest line is the one that is looked for.
  useEffect(() => {
    if (block.current) block.current.scrollTop = block.current.scrollHeight;
  }, [data]);

  return (
    <>
      <div className="p-3 empty:hidden">
        <ErrorNotice error={error} />
      </div>
      <div className="flex items-center justify-between gap-3 border-b border-line px-4 py-1.5 text-xs text-muted">
        <span role="status">
          {data ? `Last ${number(data.lines.length)} lines, at ${timeOfDay(new Date(dataUpdatedAt).toISOString())}` : isFetching ? "Reading…" : ""}
        </span>
        <Button look="quiet" className="-mr-2 h-6 px-2 text-xs" disabled={isFetching} onClick={() => void refetch()}>
          Refresh
        </Button>
      </div>
      {data?.lines.length === 0 && <p className="p-4 text-muted">No line: the session has no runtime now, or it has written nothing.</p>}
      {data && data.lines.length > 0 && (
        <pre ref={block} tabIndex={0} aria-label="Runtime log" className="max-h-80 overflow-auto p-4 font-mono text-xs leading-relaxed">
          {data.lines.join("\n")}
        </pre>
      )}
    </>
  );
}
