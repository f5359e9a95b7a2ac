// Whether an element has come near what the window shows: what is far below costs nothing until it is scrolled to.
import { useEffect, useState, type RefObject } from "react";

const MARGIN = "400px";

/** Once true it stays so. Paper has other places: while it is printed, nothing comes near. */
export function useNear(element: RefObject<Element | null>, isPrinting = false): boolean {
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    if (isNear || isPrinting || !element.current) return;
    const watcher = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) setNear(true);
      },
      { rootMargin: MARGIN },
    );
    watcher.observe(element.current);
    return () => {
      watcher.disconnect();
    };
  }, [element, isNear, isPrinting]);
  return isNear;
}
