// The colours of the console: the system's, or those that were chosen in this browser; light ones on paper.
// public/start.js applies the choice before the first paint, and styles.css has the colours.
import { useSyncExternalStore } from "react";

export const THEMES = [
  { value: "system", name: "System" },
  { value: "light", name: "Light" },
  { value: "dark", name: "Dark" },
] as const;
export type Theme = (typeof THEMES)[number]["value"];

export const THEME_KEY = "tinkerscript.theme";
const DARK = "(prefers-color-scheme: dark)";
const listeners = new Set<() => void>();
let printing = false;
/** Only where the browser keeps nothing for this site: the choice then lasts as long as the page. */
let unkept: Theme | null = null;

/** A stored text as a choice: anything unknown is the system's. */
export function themeOf(stored: string | null): Theme {
  return THEMES.find(({ value }) => value === stored)?.value ?? "system";
}

export function chosenTheme(): Theme {
  if (unkept) return unkept;
  try {
    return themeOf(localStorage.getItem(THEME_KEY));
  } catch {
    return "system";
  }
}

/** Show the page in these colours from now on, after a reload and in the browser's other tabs too. */
export function chooseTheme(theme: Theme): void {
  try {
    if (theme === "system") localStorage.removeItem(THEME_KEY);
    else localStorage.setItem(THEME_KEY, theme);
    unkept = null;
  } catch {
    unkept = theme;
  }
  apply();
}

function apply(): void {
  const theme = printing ? "light" : chosenTheme();
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const changed of listeners) changed();
}

function setPrinting(now: boolean): void {
  printing = now;
  apply();
}

/** Follow the browser's other tabs and its printer. Once, as the console starts. */
export function watchTheme(): void {
  addEventListener("storage", apply);
  addEventListener("beforeprint", () => {
    setPrinting(true);
  });
  addEventListener("afterprint", () => {
    setPrinting(false);
  });
}

function subscribe(changed: () => void): () => void {
  const system = matchMedia(DARK);
  listeners.add(changed);
  system.addEventListener("change", changed);
  return () => {
    listeners.delete(changed);
    system.removeEventListener("change", changed);
  };
}

export function useTheme(): Theme {
  return useSyncExternalStore(subscribe, chosenTheme, () => "system");
}

/** What the page is shown in at present: a canvas has to be drawn anew when it changes. */
export function useColourScheme(): "dark" | "light" {
  return useSyncExternalStore(subscribe, colourScheme, () => "light");
}

export function colourScheme(): "dark" | "light" {
  const theme = printing ? "light" : chosenTheme();
  return theme === "dark" || (theme === "system" && matchMedia(DARK).matches) ? "dark" : "light";
}

/** Whether the page is being printed: what is drawn piece by piece on the screen must then be whole. */
export function usePrinting(): boolean {
  return useSyncExternalStore(
    subscribe,
    () => printing,
    () => false,
  );
}
