// The record of a session as React state. Pages that arrive together are drawn together.
import { useEffect, useReducer, useRef, useState } from "react";
import type { EventPage } from "../api/types";
import { followSession, type Channel } from "./follow";
import { firstLink, type Link } from "./link";
import { applyPage, emptyRecord, type SessionRecord } from "./record";

function openSocket(path: string): Channel {
  return new WebSocket(path.startsWith("/") ? location.origin.replace(/^http/, "ws") + path : path) as unknown as Channel;
}

/** Mount once per session (key the component by its id). `onPage` is called with each page, to refresh what depends on it. */
export function useSessionRecord(sessionId: string, onPage: (page: EventPage) => void): { record: SessionRecord; link: Link } {
  const [record, take] = useReducer(applyPage, emptyRecord);
  const [link, setLink] = useState<Link>(firstLink);
  const onPageRef = useRef(onPage);
  useEffect(() => {
    onPageRef.current = onPage;
  });
  useEffect(
    () =>
      followSession({
        sessionId,
        open: openSocket,
        onLink: setLink,
        onPage: (page) => {
          take(page);
          onPageRef.current(page);
        },
      }),
    [sessionId],
  );
  return { record, link };
}
