/* global document, localStorage */
// Applies the colours that were chosen in this browser before anything is painted. The choice itself: src/ui/theme.ts.
// A file of its own, because the page's policy runs no script that stands in the page. The build adds what asks for the
// code of the page in the address (scripts/route-preload.ts).
try {
  const chosen = localStorage.getItem("tinkerscript.theme");
  if (chosen === "light" || chosen === "dark") {
    document.documentElement.dataset.theme = chosen;
    // What the browser itself paints before the style sheet is there.
    document.querySelector("meta[name=color-scheme]").content = chosen;
  }
} catch {
  // The browser keeps nothing for this site: its colours are the system's.
}
