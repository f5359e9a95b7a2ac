// Keeps the list of sessions as it is now: by the project's live channel, and by asking again while that is lost.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { accountQuery } from "../../../api/account";
import { isExported } from "../../../api/offline";
import { currentProject } from "../../../api/project";
import { sessionsQuery, type SessionFilter } from "../../../api/sessions";
import { followProject, openSocket, firstLink, type Link } from "../../../live/follow";
import { applyChanges, isMisplaced, keepTold } from "./session-changes";

const AGAIN_MS = 5_000; // a list whose rows change places all the time is asked for no more often

interface LiveList {
  link: Link;
  /** When the channel was last heard, in ms since 1970. */
  heardAt: number | null;
}

export function useLiveList(filter: SessionFilter): LiveList {
  const { data: account } = useQuery(accountQuery);
  const projectId = account && currentProject(account)?.id;
  const client = useQueryClient();
  const [link, setLink] = useState<Link>(firstLink);
  const [heardAt, setHeardAt] = useState<number | null>(null);
  const shown = useRef(filter);
  useEffect(() => {
    shown.current = filter;
  });
  useEffect(() => {
    if (!projectId || isExported) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let heard: number | null = null;
    let askedAt = 0;
    const askAgain = () => {
      timer ??= setTimeout(
        () => {
          timer = undefined;
          askedAt = Date.now();
          const { queryKey } = sessionsQuery(shown.current);
          // Asking anew would end a request that is on its way, and an older page would not come.
          if (client.isFetching({ queryKey, exact: true }) > 0) askAgain();
          else void client.invalidateQueries({ queryKey });
        },
        Math.max(0, askedAt + AGAIN_MS - Date.now()),
      );
    };
    const meanwhile = keepTold(client, () => sessionsQuery(shown.current).queryKey);
    const stop = followProject(projectId, {
      after: 0,
      open: openSocket,
      onLink: (now) => {
        setLink(now);
        if (now.status === "waiting") setHeardAt(heard);
      },
      onPage: (page) => {
        // The first page of all says from when on changes are told: what the list has may be older.
        if (heard === null) askAgain();
        heard = Date.now();
        const { queryKey } = sessionsQuery(shown.current);
        meanwhile.told(page.items);
        // An answer that is on its way may be older than this page: its rows get these changes, its order is asked for anew.
        if (client.isFetching({ queryKey, exact: true }) > 0) askAgain();
        const list = client.getQueryData(queryKey);
        if (!list) return;
        if (isMisplaced(list, page, shown.current)) askAgain();
        client.setQueryData(queryKey, (before) => before && applyChanges(before, page.items));
      },
    });
    return () => {
      clearTimeout(timer);
      meanwhile.stop();
      stop();
    };
  }, [client, projectId]);
  return { link, heardAt };
}
