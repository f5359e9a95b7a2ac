// What the page offers: its own buttons and links at the top, so that a dialog that asks before a deed still asks.

interface PageAction {
  name: string;
  run: () => void;
}

/** The enabled buttons and links of every element with `data-page-actions`, named as a screen reader names them. */
export function pageActions(page: ParentNode): PageAction[] {
  const found = page.querySelectorAll<HTMLElement>(
    "[data-page-actions] :is(button:not(:disabled), a[href])",
  );
  const actions = [...found].map((element) => ({
    name: (element.getAttribute("aria-label") ?? element.textContent).trim(),
    run: () => {
      element.click();
    },
  }));
  return actions.filter(
    (action, at) =>
      action.name !== "" && actions.findIndex((other) => other.name === action.name) === at,
  );
}
