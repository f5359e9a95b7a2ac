// What the browser's tab and history call the page.
import { useEffect } from "react";
import { visible } from "./plain-text";

const PRODUCT = "TinkerScript";

/** `of`: the run that the page belongs to. */
export function useTitle(page: string, of?: { name: string; id: string }): void {
  const title = of ? `${page} of ${of.name || of.id}` : page;
  useEffect(() => {
    document.title = title ? `${visible(title)} · ${PRODUCT}` : PRODUCT;
    return () => {
      document.title = PRODUCT;
    };
  }, [title]);
}
