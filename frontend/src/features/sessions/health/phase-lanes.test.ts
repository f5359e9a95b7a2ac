import { expect, test } from "vitest";
import type { Event } from "../../../api/types";
import { laneName, phaseLanes } from "./phase-lanes";

let cursor = 0;

function entry(
  second: number,
  from: string,
  to: string,
  phase = "",
  deadline_s: number | null = null,
): Event {
  cursor += 1;
  return {
    cursor,
    kind: "state",
    at: new Date(second * 1000).toISOString(),
    data: { from, to, phase, reason: "", deadline_s },
  };
}

test("phases of every step are one lane", () => {
  expect(laneName("training step 14")).toBe("training step");
  expect(laneName("waiting for episodes: 3 of 8 groups")).toBe("waiting for episodes");
  expect(laneName("saving (2 of 3 files)")).toBe("saving");
});

test("each lane has its stretches, its longest and the deadline that the runtime gave", () => {
  const record = [
    entry(0, "", "queued"),
    entry(10, "queued", "loading", "loading the libraries", 840),
    entry(30, "loading", "ready", "waiting for episodes", 120),
    entry(50, "ready", "ready", "training step 1", 600),
    entry(55, "ready", "ready", "waiting for episodes: 1 of 2", 120),
    entry(60, "ready", "ready", "training step 2", 600),
  ];
  const { lanes, beginMs, endMs } = phaseLanes(record, 72_000);
  expect([beginMs, endMs]).toEqual([0, 72_000]);
  const told = lanes.map((lane) => [
    lane.name,
    lane.stretches.map((one) => [one.beginMs / 1000, one.endMs / 1000]),
    lane.longestS,
    lane.deadlineS,
  ]);
  expect(told).toEqual([
    ["queued", [[0, 10]], 10, null],
    ["loading", [[10, 30]], 20, null],
    ["ready", [[30, 72]], 42, null],
    ["loading the libraries", [[10, 30]], 20, 840],
    [
      "waiting for episodes",
      [
        [30, 50],
        [55, 60],
      ],
      20,
      120,
    ],
    [
      "training step",
      [
        [50, 55],
        [60, 72],
      ],
      12,
      600,
    ],
  ]);
});

test("a run that has ended goes no further than its last entry, and one without a record has no lane", () => {
  const ended = phaseLanes([entry(0, "", "queued"), entry(5, "queued", "cancelled")], null);
  expect(ended.endMs).toBe(5000);
  expect(phaseLanes([], null)).toEqual({ lanes: [], beginMs: 0, endMs: 0 });
});
