import { expect, test } from "vitest";
import { applyPage, emptyRecord } from "../../../live/record";
import { askedOf } from "./asked-tasks";

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
