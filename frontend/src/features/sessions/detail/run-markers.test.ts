import { expect, test } from "vitest";
import type { Evaluation } from "../../../api/types";
import type { Mark } from "../../../live/marks";
import { markersOf, stepAt, type Marked } from "./run-markers";

const base: Marked = {
  id: "ses_1",
  createdAt: "2030-01-01T00:00:00Z",
  axis: "step",
  points: { steps: [1, 2, 3], x: [1, 2, 3] },
  marks: [],
  evaluations: [],
  times: null,
};
const mark = (kind: Mark["kind"], step: number | null, seconds = 0, detail = ""): Mark => ({
  cursor: seconds,
  at: new Date(Date.parse(base.createdAt) + seconds * 1000).toISOString(),
  kind,
  step,
  detail,
});
const places = (marked: Marked) => markersOf(marked).map(({ kind, x }) => [kind, x]);

test("a checkpoint, a refused step and an evaluation are marked at their steps, and lead to them", () => {
  const evaluations = [{ name: "held out", step: 2, reward_mean: 0.5 } as Evaluation];
  const found = markersOf({
    ...base,
    marks: [mark("checkpoint", 2, 1, "state"), mark("refusal", 3, 2, "not finite")],
    evaluations,
  });
  expect(found.map(({ x, to }) => [x, to])).toEqual([
    [2, "/sessions/ses_1/steps/2"],
    [3, "/sessions/ses_1/steps/3"],
    [2, "/sessions/ses_1/tasks?to=2"],
  ]);
  expect(found[0]?.text).toMatch(/^Checkpoint of step 2 \(state\), /);
  expect(found.slice(1).map(({ text }) => text)).toEqual([
    "Step 3 was refused: not finite",
    "Evaluation held out at step 2: mean reward 0.5",
  ]);
});

test("changed options stand at the first step that they hold for, and lead to the settings", () => {
  const [change] = markersOf({ ...base, marks: [mark("change", 2, 1, "kl_coef 0.1, was 0.2")] });
  expect([change?.x, change?.text, change?.to]).toEqual([
    2,
    "From step 2: kl_coef 0.1, was 0.2",
    "/sessions/ses_1/settings",
  ]);
});

test("a restart stands after the last step that was done before it, and nowhere while that is not known", () => {
  const marks = [mark("restart", null, 25, "the runtime ended")];
  expect(places({ ...base, marks })).toEqual([]);
  const times = { x: [10, 20, 30], steps: [1, 2, 3] };
  const [restart] = markersOf({ ...base, marks, times });
  expect([restart?.x, restart?.to]).toEqual([2, "/sessions/ses_1/health"]);
  expect(restart?.text).toMatch(/^Restarted after step 2, .*: the runtime ended$/);
  expect(
    places({ ...base, axis: "time", points: { steps: [1, 2, 3], x: [10, 20, 30] }, marks, times }),
  ).toEqual([["restart", 25]]);
  expect(stepAt(times, 5)).toBe(0);
});

test("on another axis a mark stands where its step does, and beyond the ends at the ends", () => {
  const tokens: Marked = {
    ...base,
    axis: "tokens",
    points: { steps: [1, 4, 9], x: [100, 400, 900] },
  };
  const marks = [mark("checkpoint", 0, 1), mark("checkpoint", 5, 2), mark("refusal", 10, 3)];
  expect(places({ ...tokens, marks })).toEqual([
    ["checkpoint", 100],
    ["checkpoint", 400],
    ["refusal", 900],
  ]);
  expect(places({ ...base, marks })).toEqual([
    ["checkpoint", 1],
    ["checkpoint", 3],
    ["refusal", 3],
  ]);
  expect(places({ ...base, points: { steps: [], x: [] }, marks })).toEqual([]);
});
