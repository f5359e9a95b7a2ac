import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createElement, type ReactNode } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { expect, test } from "vitest";
import { applyPage, emptyRecord, type TimelineEntry } from "../../../live/record";
import { askedOf, Detail, EventLinks } from "./record-panel";

test("an event about tasks without a name says which episodes have their questions", () => {
  const key = `prompt:${"0f".repeat(16)}`;
  const stale = { name: "episodes_stale", n: 9, tasks: [key, "mist"], episode_ids: ["a", "b"] };
  const at = "2026-01-01T00:00:00Z";
  const page = {
    items: [{ cursor: 1, at, kind: "event" as const, data: stale }],
    next_cursor: 1,
  };
  const [entry] = applyPage(emptyRecord, page).timeline;
  expect(entry?.detail).toBe(`n 9 · tasks ${key}, mist`);
  expect(entry && askedOf(entry)).toEqual([{ key, episodeId: "a" }]);
});

test("an event of an earlier release, without episodes, asks for none", () => {
  const entry = { cursor: 1, at: "", kind: "event" as const, title: "", detail: "" };
  expect(askedOf({ ...entry, data: { tasks: ["prompt:1"] } })).toEqual([]);
  expect(askedOf(entry)).toEqual([]);
});

const page = (part: ReactNode) =>
  renderToStaticMarkup(
    createElement(
      QueryClientProvider,
      { client: new QueryClient() },
      createElement(MemoryRouter, null, part),
    ),
  );
const entry: TimelineEntry = {
  cursor: 1,
  at: "2030-01-01T00:00:00Z",
  kind: "event",
  title: "step refused",
  detail: "",
};

test("a stack dump is one line that opens to all of it, and its controls are signs", () => {
  const dump = `stacks ${"frame\n".repeat(400)}\u001b[31mlast`;
  const html = page(createElement(Detail, { text: dump }));
  expect(html).toMatch(/<details.*<summary/s);
  expect(html).toContain("␛[31mlast</span></pre>");
  expect(page(createElement(Detail, { text: "step 10" }))).not.toContain("<details");
});

test("a refused step leads to its step, and to its batch while a runtime has it", () => {
  const leads = (isReady: boolean) =>
    page(
      createElement(EventLinks, {
        sessionId: "ses_1",
        entry: { ...entry, step: 7, batch: "refused-1f" },
        isReady,
      }),
    );
  expect(leads(true)).toContain('href="/sessions/ses_1/steps/7"');
  expect(leads(true)).toContain("Download batch");
  expect(leads(false)).not.toContain("Download batch");
});
