// What is done once when a run that is looked at ends: what was fetched last is older than its end, and is asked for no more.
import { useEffect, useRef } from "react";

export function useOnEnd(isLive: boolean, onEnd: () => void) {
  const wasLive = useRef(isLive);
  useEffect(() => {
    if (wasLive.current && !isLive) onEnd();
    wasLive.current = isLive;
  });
}
