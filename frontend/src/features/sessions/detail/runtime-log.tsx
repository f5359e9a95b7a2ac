// The last lines that the session's runtime wrote, oldest first; a click adds what came since. Those with a text, if one is typed.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Fragment, useEffect, useRef, useState } from "react";
import { useSearchParams } from "react-router";
import { logsGoOn, logsQuery } from "../../../api/sessions";
import type { SessionLogs } from "../../../api/types";
import { useTypedPart } from "../../../ui/address-part";
import { Button } from "../../../ui/button";
import { CutText } from "../../../ui/cut-text";
import { inputClass } from "../../../ui/field";
import { number, timeOfDay } from "../../../ui/format";
import { ErrorNotice } from "../../../ui/notice";

const FEW = 200;
const MANY = 5000;

export function RuntimeLog({ sessionId }: { sessionId: string }) {
  const [address] = useSearchParams();
  const [typed, setTyped] = useTypedPart("log");
  const [most, setMost] = useState(FEW);
  const asked = address.get("log") ?? "";
  const query = logsQuery(sessionId, asked, most);
  const { data, error, isFetching, refetch, dataUpdatedAt } = useQuery(query);
  const kept = useQueryClient();
  const further = useMutation({
    mutationFn: async (before: SessionLogs) => ({
      to: query.queryKey,
      logs: await logsGoOn(sessionId, asked, before, MANY),
    }),
    onSuccess: ({ to, logs }) => kept.setQueryData(to, logs),
  });
  const isReading = isFetching || further.isPending;
  const goOn = () => {
    if (data?.cursor) further.mutate(data);
    else void refetch();
  };
  const block = useRef<HTMLPreElement>(null);

  // The newest line is the one that is looked for.
  useEffect(() => {
    if (block.current) block.current.scrollTop = block.current.scrollHeight;
  }, [data]);

  const found = data?.lines.length ?? 0;
  return (
    <>
      <div className="p-3 empty:hidden">
        <ErrorNotice error={error ?? further.error} />
      </div>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b border-line px-4 py-1.5 text-xs text-muted">
        <input
          type="search"
          aria-label="Lines that contain"
          placeholder="Lines that contain…"
          maxLength={200}
          className={`${inputClass} h-6! max-w-56 text-xs`}
          value={typed}
          onChange={(event) => {
            setTyped(event.target.value);
          }}
        />
        <span role="status">
          {data
            ? `${linesText(found, asked !== "")}, at ${timeOfDay(new Date(dataUpdatedAt).toISOString())}`
            : isReading
              ? "Reading…"
              : ""}
          {data?.is_cut && " Lines between were not kept."}
        </span>
        <span className="-mr-2 ml-auto flex">
          {found === FEW && most === FEW && (
            <Button
              look="quiet"
              className="h-6 px-2 text-xs"
              onClick={() => {
                setMost(MANY);
              }}
            >
              Show more
            </Button>
          )}
          <Button look="quiet" className="h-6 px-2 text-xs" disabled={isReading} onClick={goOn}>
            Refresh
          </Button>
        </span>
      </div>
      {found === 0 && data && (
        <p className="p-4 text-muted">
          {asked
            ? "No line contains it."
            : "The log is empty: nothing that a runtime of this session wrote was kept."}
        </p>
      )}
      {found > 0 && (
        <pre
          ref={block}
          tabIndex={0}
          aria-label="Runtime log"
          className="max-h-80 overflow-auto p-4 font-mono text-xs leading-relaxed"
        >
          {data?.lines.map((line, at) => (
            <Fragment key={at}>
              <CutText text={line} />
              {"\n"}
            </Fragment>
          ))}
        </pre>
      )}
    </>
  );
}

function linesText(found: number, isNarrowed: boolean): string {
  const lines = found === 1 ? "line" : "lines";
  if (found === 0) return "No line";
  return isNarrowed ? `Last ${number(found)} ${lines} with it` : `Last ${number(found)} ${lines}`;
}
