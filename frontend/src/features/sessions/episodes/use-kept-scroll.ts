// Where a long list was scrolled to: there again after "Back" and after a reload, once as many rows have been read.
import { useEffect, useRef, type RefObject } from "react";
import { useNavigationType } from "react-router";

const MOST_PAGES = 30; // that are read for it
const REST_MS = 150; // without a movement: not every browser tells the end of a scroll

/** `name`: of the list, as its address. `more` reads the next rows where there are some; `count` rows are there. */
export function useKeptScroll(
  box: RefObject<HTMLElement | null>,
  { name, count, more }: { name: string; count: number; more: () => void },
): void {
  const isReturn = useNavigationType() === "POP";
  const wanted = useRef(isReturn ? keptScroll(name) : 0);
  const pages = useRef(0);
  useEffect(() => {
    const element = box.current;
    if (!element || wanted.current === 0) return;
    const isThere = element.scrollHeight - element.clientHeight >= wanted.current;
    element.scrollTo({ top: wanted.current }); // as near as it goes
    if (isThere || (pages.current += 1) > MOST_PAGES) wanted.current = 0;
    else more();
  }, [box, count, more]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    let timer = 0;
    const keep = () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(() => {
        if (wanted.current === 0)
          sessionStorage.setItem(name, String(Math.round(element.scrollTop)));
      }, REST_MS);
    };
    const take = () => {
      wanted.current = 0; // the reader goes somewhere else
    };
    element.addEventListener("scroll", keep, { passive: true });
    for (const deed of ["wheel", "keydown", "pointerdown", "touchstart"])
      element.addEventListener(deed, take, { passive: true });
    return () => {
      window.clearTimeout(timer);
      element.removeEventListener("scroll", keep);
      for (const deed of ["wheel", "keydown", "pointerdown", "touchstart"])
        element.removeEventListener(deed, take);
    };
  }, [box, name]);
}

function keptScroll(name: string): number {
  const kept = Number(sessionStorage.getItem(name));
  return Number.isFinite(kept) && kept > 0 ? kept : 0;
}
