// What the browser's tab and history call the page.
import { useEffect } from "react";
import { visible } from "./plain-text";

const PRODUCT = "TinkerScript";

export function useTitle(page: string): void {
  useEffect(() => {
    document.title = page ? `${visible(page)} · ${PRODUCT}` : PRODUCT;
    return () => {
      document.title = PRODUCT;
    };
  }, [page]);
}
