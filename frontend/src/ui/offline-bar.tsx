// Says that the browser has no network: what is shown may be old, and nothing can be changed.
import { useSyncExternalStore } from "react";

function subscribe(changed: () => void): () => void {
  addEventListener("online", changed);
  addEventListener("offline", changed);
  return () => {
    removeEventListener("online", changed);
    removeEventListener("offline", changed);
  };
}

export function useOnline(): boolean {
  return useSyncExternalStore(subscribe, () => navigator.onLine);
}

export function OfflineBar() {
  if (useOnline()) return null;
  return (
    <p role="alert" className="fixed inset-x-0 print:hidden bottom-0 z-10 border-t border-warn/40 bg-warn-soft px-4 py-2 text-center font-medium text-warn">
      You are offline. What you see may be old; it is brought up to date when you are back.
    </p>
  );
}
