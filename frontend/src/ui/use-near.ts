// Whether an element has come near what the window shows: what is far below costs nothing until it is scrolled to.
import { useEffect, useState, type RefObject } from "react";

const MARGIN_PX = 400;

/** Once true it stays so. Paper has other places: while it is printed, nothing comes near. */
export function useNear(
  element: RefObject<Element | null>,
  isPrinting = false,
  marginPx = MARGIN_PX,
): boolean {
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    if (isNear || isPrinting || !element.current) return;
    const watcher = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) setNear(true);
      },
      { rootMargin: `${String(marginPx)}px` },
    );
    watcher.observe(element.current);
    return () => {
      watcher.disconnect();
    };
  }, [element, isNear, isPrinting, marginPx]);
  return isNear;
}
