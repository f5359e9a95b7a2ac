// Says that the browser has no network: what is shown may be old, and nothing can be changed.
import { useSyncExternalStore } from "react";

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

export function OfflineBar() {
  if (useOfflineSince() === null) return null;
  return (
    <p role="alert" className="fixed inset-x-0 print:hidden bottom-0 z-10 border-t border-warn/40 bg-warn-soft px-4 py-2 text-center font-medium text-warn">
      You are offline. What you see may be old; it is brought up to date when you are back.
    </p>
  );
}
