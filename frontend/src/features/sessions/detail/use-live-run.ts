// The record of a run, live; what of the run its entries have moved is read anew.
import { useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { checkpointsQuery } from "../../../api/checkpoints";
import { sessionQuery } from "../../../api/sessions";
import type { EventPage } from "../../../api/types";
import { historyBegin } from "../../../live/history";
import { refresher } from "../../../live/refresh";
import { useSessionRecord, type LiveRecord } from "../../../live/use-session-record";

/** For the pages that show it: asked for as soon as their code is there. */
export function liveRunWarm(client: QueryClient, { id = "" }: { id?: string }): Promise<unknown> {
  historyBegin(id);
  return client.prefetchQuery(sessionQuery(id));
}

/** Mount once per run: key the component by its id. */
export function useLiveRun(id: string): LiveRecord {
  return useSessionRecord(id, useRefresh(id));
}

function useRefresh(id: string): (page: EventPage) => void {
  const client = useQueryClient();
  const { page, stop } = useMemo(
    () =>
      refresher((moved) =>
        Promise.all([
          moved.has("session") &&
            client.invalidateQueries({ queryKey: sessionQuery(id).queryKey, exact: true }),
          moved.has("checkpoints") &&
            client.invalidateQueries({ queryKey: checkpointsQuery(id).queryKey }),
        ]),
      ),
    [client, id],
  );
  useEffect(() => stop, [stop]);
  return page;
}
