// What the browser's tab and history call the page.
import { useEffect } from "react";

const PRODUCT = "TinkerScript";

export function useTitle(page: string): void {
  useEffect(() => {
    document.title = page ? `${page} · ${PRODUCT}` : PRODUCT;
    return () => {
      document.title = PRODUCT;
    };
  }, [page]);
}
