import { readFileSync } from "node:fs";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { beforeEach, expect, test, vi } from "vitest";
import {
  chooseTheme,
  chosenTheme,
  colourScheme,
  THEME_KEY,
  usePrinting,
  useTheme,
  watchTheme,
} from "./theme";

const atLoad = readFileSync(new URL("../../public/start.js", import.meta.url), "utf8");
let kept: Map<string, string>;
let system: { matches: boolean; addEventListener: () => void; removeEventListener: () => void };
let root: { dataset: { theme?: string } };
let heard: Map<string, () => void>;
let scheme: { content: string };

beforeEach(() => {
  kept = new Map();
  system = { matches: false, addEventListener: vi.fn(), removeEventListener: vi.fn() };
  root = { dataset: {} };
  heard = new Map();
  scheme = { content: "light dark" };
  vi.stubGlobal("localStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  });
  vi.stubGlobal("document", { documentElement: root, querySelector: () => scheme });
  vi.stubGlobal("matchMedia", () => system);
  vi.stubGlobal("addEventListener", (name: string, listener: () => void) =>
    heard.set(name, listener),
  );
});

/** What the page has after a reload: the script that runs before anything is painted. */
function reload(): string | undefined {
  root.dataset = {};
  new Function(atLoad)();
  return root.dataset.theme;
}

test("what is chosen is shown at once and after a reload, and the system's colours leave nothing behind", () => {
  for (const theme of ["dark", "light"] as const) {
    chooseTheme(theme);
    expect([root.dataset.theme, colourScheme(), chosenTheme(), reload()]).toEqual([
      theme,
      theme,
      theme,
      theme,
    ]);
    expect(scheme.content).toBe(theme); // for what the browser paints before there is a style sheet
  }
  chooseTheme("system");
  expect([root.dataset.theme, kept.size, reload()]).toEqual([undefined, 0, undefined]);
  expect(colourScheme()).toBe("light");
  system.matches = true;
  expect(colourScheme()).toBe("dark");
});

test("an unknown text in the browser's store is the system's theme, before and after the start", () => {
  kept.set(THEME_KEY, "sepia");
  expect([chosenTheme(), reload()]).toEqual(["system", undefined]);
});

test("a browser that keeps nothing has the chosen theme until it is reloaded", () => {
  const refuse = () => {
    throw new Error("storage is off");
  };
  vi.stubGlobal("localStorage", { getItem: refuse, setItem: refuse, removeItem: refuse });
  chooseTheme("dark");
  expect([root.dataset.theme, chosenTheme(), colourScheme()]).toEqual(["dark", "dark", "dark"]);
  expect(reload()).toBeUndefined();
  chooseTheme("system");
});

test("paper is light, and the screen has its theme again afterwards; another tab's choice is taken", () => {
  watchTheme();
  chooseTheme("dark");
  heard.get("beforeprint")?.();
  expect([root.dataset.theme, colourScheme(), chosenTheme()]).toEqual(["light", "light", "dark"]);
  heard.get("afterprint")?.();
  expect([root.dataset.theme, colourScheme()]).toEqual(["dark", "dark"]);
  kept.set(THEME_KEY, "light");
  heard.get("storage")?.();
  expect(root.dataset.theme).toBe("light");
});

test("a component reads the theme without a browser", () => {
  const Shown = () => createElement("p", null, useTheme(), String(usePrinting()));
  expect(renderToStaticMarkup(createElement(Shown))).toBe("<p>systemfalse</p>");
});
