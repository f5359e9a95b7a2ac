// The one message that nothing comes from the server: the browser has no network, or the server does not answer.
import { useQueryClient } from "@tanstack/react-query";
import { createContext, useEffect, useSyncExternalStore } from "react";
import { isUnreachable } from "../api/errors";
import { Button } from "./button";

const AGAIN_MS = 5_000;

/** Whether the page's frame has the bar, which then stands for every error of this kind. */
export const HasConnectionBar = createContext(false);

/** In ms since 1970; of a browser that has been offline since the page was opened, when it was opened. */
let offlineAt: number | null = null;

function offlineSince(): number | null {
  offlineAt = navigator.onLine ? null : (offlineAt ?? Date.now());
  return offlineAt;
}

function subscribe(changed: () => void): () => void {
  addEventListener("online", changed);
  addEventListener("offline", changed);
  return () => {
    removeEventListener("online", changed);
    removeEventListener("offline", changed);
  };
}

/** Since when the browser has no network; null while it has one. */
export function useOfflineSince(): number | null {
  return useSyncExternalStore(subscribe, offlineSince);
}

/** Whether some of what the page shows could not be asked for; it is asked for again until it can. */
function useServerAway(): boolean {
  const client = useQueryClient();
  const cache = client.getQueryCache();
  const isAway = useSyncExternalStore(
    (changed) => cache.subscribe(changed),
    () => cache.getAll().some((query) => query.isActive() && isUnreachable(query.state.error)),
  );
  useEffect(() => {
    if (!isAway) return;
    const again = () =>
      void client.refetchQueries(
        { type: "active", predicate: (query) => isUnreachable(query.state.error) },
        { cancelRefetch: false },
      );
    const timer = setInterval(again, AGAIN_MS);
    addEventListener("online", again);
    return () => {
      clearInterval(timer);
      removeEventListener("online", again);
    };
  }, [client, isAway]);
  return isAway;
}

export function ConnectionBar() {
  const client = useQueryClient();
  const isOffline = useOfflineSince() !== null;
  const isAway = useServerAway();
  if (!isOffline && !isAway) return null;
  return (
    <div
      role="alert"
      className="fixed inset-x-0 print:hidden bottom-0 z-10 flex flex-wrap items-center justify-center gap-x-3 border-t border-warn/40 bg-warn-soft px-4 py-2 font-medium text-warn"
    >
      <p>
        {isOffline
          ? "You are offline. What you see may be old; it is brought up to date when you are back."
          : "The server does not answer. What you see may be old; it is asked again every few seconds."}
      </p>
      {!isOffline && (
        <Button
          className="h-7"
          onClick={() =>
            void client.refetchQueries({ predicate: (query) => query.state.status === "error" })
          }
        >
          Try again
        </Button>
      )}
    </div>
  );
}
