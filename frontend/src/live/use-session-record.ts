// The record of a session as React state: what there is at first, then live. Pages that arrive together are drawn together.
import { startTransition, useEffect, useRef, useState } from "react";
import { isExported } from "../api/offline";
import type { EventPage } from "../api/types";
import { followSession, openSocket, firstLink, type Link } from "./follow";
import { historyTake, isKnown, type HistoryState } from "./history";
import { applyPage, emptyRecord, type SessionRecord } from "./record";

export interface LiveRecord {
  record: SessionRecord;
  /** Whether `record` has what was recorded before the page was opened, as far as it can be had. */
  isLoaded: boolean;
  link: Link;
  /** When the server was last heard, in ms since 1970: known once the line is lost. */
  heardAt: number | null;
}

/** Mount once per session (key the component by its id). `onPage` is called with each page, to refresh what depends on it. */
export function useSessionRecord(sessionId: string, onPage: (page: EventPage) => void): LiveRecord {
  const [record, setRecord] = useState(emptyRecord);
  const [history, setHistory] = useState<HistoryState>("pending");
  const [hasPage, setHasPage] = useState(false);
  const [link, setLink] = useState<Link>(firstLink);
  const [heardAt, setHeardAt] = useState<number | null>(null);
  const onPageRef = useRef(onPage);
  useEffect(() => {
    onPageRef.current = onPage;
  });
  useEffect(() => {
    let stop: (() => void) | null = null;
    let isGone = false;
    let heard: number | null = null;
    const follow = (from: SessionRecord) => {
      if (isGone) return;
      setRecord(from);
      if (isExported) return;
      stop = followSession({
        sessionId,
        after: from.cursor,
        open: openSocket,
        onLink: (now) => {
          setLink(now);
          if (now.status === "waiting") setHeardAt(heard);
        },
        onPage: (page) => {
          heard = Date.now();
          setHasPage(true);
          setRecord((before) => applyPage(before, page));
          onPageRef.current(page);
        },
      });
    };
    historyTake(sessionId).then(
      (loaded) => {
        // Many charts at once: drawn piece by piece, so that the page takes a click in between.
        heard = Date.now(); // also where the channel then never says a word
        startTransition(() => {
          setHistory("read");
          follow(loaded);
        });
      },
      () => {
        setHistory("failed");
        follow(emptyRecord); // the live channel brings all of it, and says why where it is refused
      },
    );
    return () => {
      isGone = true;
      stop?.();
    };
  }, [sessionId]);
  return {
    record,
    isLoaded: isKnown(history, { isFollowed: !isExported, link, hasPage }),
    link,
    heardAt,
  };
}
